"""Controllers as processes of their own, ours and genuine ones, that form one quorum."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.values import uuid_to_text
from tests.support.broker_process import ROOT
from tests.support.genuine_kafka import NO_FEATURES, free_ports
from tests.support.kafka_jars import java_command
from tests.support.wire_client import ConnectionEnded, WireClient

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
READY: Final = re.compile(r"Barnabas is ready: ")
WAIT_SECONDS: Final = 60
CONTROLLERS: Final = 2

Partition = DescribeQuorumResponse.PartitionData


class Controller:
    """One controller process on a directory that outlives it; ours, or Apache Kafka's."""

    def __init__(self, folder: Path, node_id: int, port: int, *, genuine: bool) -> None:
        self.node_id = node_id
        self.address = f"127.0.0.1:{port}"
        self.directory_id = uuid_to_text(bytes([0x40 + node_id]) * 16)
        self.genuine = genuine
        self.data = folder / f"node-{node_id}"
        self.file = folder / f"node-{node_id}.properties"
        self.log_file = folder / f"node-{node_id}.log"
        self._process: subprocess.Popen[str] | None = None

    def configure(self, properties: Mapping[str, str]) -> None:
        own = {
            "process.roles": "controller",
            "node.id": str(self.node_id),
            "listeners": f"CONTROLLER://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
        }
        if not self.genuine:
            own["barnabas.admin.listener"] = ""
        self.file.write_text("".join(f"{name}={value}\n" for name, value in (own | dict(properties)).items()))

    def format(self, *options: str) -> None:
        words = ["format", "-t", CLUSTER_ID, "-c", str(self.file), *options]
        if self.genuine:
            levels = [word for feature in NO_FEATURES for word in ("--feature", feature)]
            command = java_command("kafka.tools.StorageTool", *words, *levels)
        else:
            command = [sys.executable, "-m", "broker", "storage", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> Self:
        if self.genuine:
            command = java_command("kafka.Kafka", str(self.file), heap="192m")
        else:
            command = [sys.executable, "-m", "broker", "start", str(self.file)]
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=log,
                text=True,
            )
        return self

    @property
    def process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError(f"controller {self.node_id} has not been started")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """A clean stop; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        watchdog = threading.Timer(30, self.process.kill)
        watchdog.start()
        try:
            return self.process.wait()
        finally:
            watchdog.cancel()

    def describe(self) -> Partition | None:
        """What it tells of the quorum if it leads it, and None if it does not, or does not answer."""
        topic = DescribeQuorumRequest.TopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.PartitionData()]
        )
        try:
            with WireClient(self.address) as client:
                answer = client.ask_for(DescribeQuorumResponse, DescribeQuorumRequest([topic]), 2)
        except (OSError, ConnectionEnded):
            return None
        if answer.error_code or not answer.topics:
            return None
        partition = answer.topics[0].partitions[0]
        return None if partition.error_code else partition


class ControllerQuorum:
    """Several of them. `await_state` looks until what is told fits, and fails with the logs if it
    never does."""

    def __init__(
        self, folder: Path, kinds: Sequence[bool], settings: Mapping[str, str] | None = None
    ) -> None:
        """kinds: for each controller from node 1 on, whether it is a genuine one."""
        ports = free_ports(len(kinds))
        self.settings = dict(settings or {})
        self.controllers = [
            Controller(folder, number + 1, port, genuine=genuine)
            for number, (port, genuine) in enumerate(zip(ports, kinds, strict=True))
        ]
        servers = ",".join(each.address for each in self.controllers)
        self.bootstrap_controllers = servers
        for each in self.controllers:
            each.configure({"controller.quorum.bootstrap.servers": servers} | self.settings)

    @property
    def initial_controllers(self) -> str:
        return ",".join(f"{each.node_id}@{each.address}:{each.directory_id}" for each in self.controllers)

    def start(self) -> Self:
        """Formats them all as first voters, and starts them."""
        formatting = [
            threading.Thread(target=each.format, args=("--initial-controllers", self.initial_controllers))
            for each in self.controllers
        ]
        for thread in formatting:
            thread.start()
        for thread in formatting:
            thread.join()
        for each in self.controllers:
            each.start()
        return self

    def node(self, node_id: int) -> Controller:
        return next(each for each in self.controllers if each.node_id == node_id)

    def await_state(self, what: str, fits: Callable[[Partition], bool]) -> Partition:
        """As the leader tells it."""
        told: Partition | None = None
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            for each in self.controllers:
                if each.is_running:
                    found = each.describe()
                    if found is not None:
                        told = found
                        if fits(found):
                            return found
            time.sleep(0.05)
        logs = "\n".join(f"--- {e.node_id}\n{e.log_file.read_text()[-1500:]}" for e in self.controllers)
        raise AssertionError(f"never: {what}; last told {told}\n{logs}")

    def await_listed(self, controller: Controller, ports: Mapping[int, int]) -> None:
        """Until the controller names all of these as controllers, by id and port."""
        listed: dict[int, int] = {}
        deadline = time.monotonic() + WAIT_SECONDS
        while listed != ports and time.monotonic() < deadline:
            time.sleep(0.05)
            try:
                with WireClient(controller.address) as client:
                    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
                    answer = client.ask_for(DescribeClusterResponse, request, 2)
            except (OSError, ConnectionEnded):
                continue
            listed = {each.broker_id: each.port for each in answer.brokers}
        assert listed == ports, f"node {controller.node_id}: {controller.log_file.read_text()[-1500:]}"

    def await_leader(self, *, after_epoch: int = 0) -> Partition:
        """A leader of a later epoch, whom all that run follow closely."""
        running = sorted(each.node_id for each in self.controllers if each.is_running)

        def is_level(told: Partition) -> bool:
            level = [
                voter.replica_id
                for voter in (*told.current_voters, *told.observers)
                if told.high_watermark > 0 and voter.log_end_offset >= told.high_watermark - 5
            ]
            return told.leader_epoch > after_epoch and set(running) <= set(level)

        return self.await_state(f"a leader after epoch {after_epoch} and {running} behind it", is_level)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        for each in self.controllers:
            if each.is_running:
                each.kill()
