"""A quorum of controllers in processes of their own: made, asked, waited for.

Who leads is asked of the controllers themselves (DescribeQuorum, which only the leader answers), over
connections that are kept: so the time to a next leader can be measured to some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeVar

from broker.ports.random_source import SystemRandomSource
from controller.metadata.random_ids import random_uuid
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.values import uuid_to_text
from tests.support.brokers.ports import free_ports
from tests.support.brokers.quorum_members import GenuineController, Member, OurController, await_found
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.genuine.tool_server import ToolServer

OURS: Final = "ours"
KAFKAS: Final = "kafka's"
DYNAMIC: Final = "initial controllers"
STATIC: Final = "static voters"

FoundT = TypeVar("FoundT")
POLL_SECONDS: Final = 0.003
ANSWER_SECONDS: Final = 30
"""A controller that gets no processor time for a while answers all the same."""
BROKER_RESOURCE: Final = 4

PartitionData = DescribeQuorumResponse.PartitionData

ABOUT_METADATA: Final = DescribeQuorumRequest(
    topics=[
        DescribeQuorumRequest.TopicData(
            topic_name="__cluster_metadata",
            partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)],
        )
    ]
)


class Leader(NamedTuple):
    node_id: int
    epoch: int
    view: PartitionData

    def end_offset_of(self, node_id: int) -> int | None:
        """As the leader knows it, of a voter or an observer."""
        for state in (*self.view.current_voters, *self.view.observers):
            if state.replica_id == node_id:
                return state.log_end_offset
        return None

    @property
    def voters(self) -> list[int]:
        return sorted(state.replica_id for state in self.view.current_voters)

    @property
    def observers(self) -> list[int]:
        return sorted(state.replica_id for state in self.view.observers)


class Quorum:
    """Controllers of `kinds`, numbered from 1. `format` before the first start."""

    def __init__(
        self,
        folder: Path,
        kinds: Sequence[str],
        *,
        tools: ToolServer | None = None,
        voters: str = DYNAMIC,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.tools = tools
        self.cluster_id = new_id()
        self.members: dict[int, Member] = {}
        self._voters = voters
        self._properties = dict(properties or {})
        self._clients: dict[int, WireClient] = {}
        ports = free_ports(len(kinds))
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        static = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in enumerate(ports, 1))
        self._where = (
            {"controller.quorum.voters": static}
            if voters == STATIC
            else {"controller.quorum.bootstrap.servers": servers}
        )
        for node_id, (kind, port) in enumerate(zip(kinds, ports, strict=True), 1):
            self.add(node_id, kind, port)

    def add(
        self, node_id: int, kind: str, port: int = 0, properties: Mapping[str, str] | None = None
    ) -> Member:
        """Another controller: made, and neither formatted nor started."""
        port = port or free_ports(1)[0]
        given = {**self._where, **self._properties, **(properties or {})}
        if kind == OURS:
            self.members[node_id] = OurController(node_id, self.folder, port, new_id(), given)
        elif self.tools is None:
            raise ValueError("a genuine controller is formatted by the genuine tools")
        else:
            self.members[node_id] = GenuineController(
                node_id, self.folder, port, new_id(), given, tools=self.tools
            )
        return self.members[node_id]

    def format(self) -> Self:
        initial = ",".join(each.as_initial_controller() for each in self.members.values())
        options = () if self._voters == STATIC else ("--initial-controllers", initial)
        for member in self.members.values():
            member.format(self.cluster_id, *options)
        return self

    def start(self) -> Self:
        for member in self.members.values():
            member.begin()
        for member in self.members.values():
            member.await_listening()
        return self

    @property
    def bootstrap(self) -> str:
        """For --bootstrap-controller, those that run."""
        return ",".join(each.address for each in self.members.values() if each.is_running)

    def client(self, node_id: int) -> WireClient:
        """The kept connection; raises OSError."""
        client = self._clients.get(node_id)
        if client is None:
            client = WireClient(
                self.members[node_id].address, client_id="quorum", timeout_seconds=ANSWER_SECONDS
            )
            self._clients[node_id] = client
        return client

    def forget_client(self, node_id: int) -> None:
        client = self._clients.pop(node_id, None)
        if client is not None:
            client.close()

    def describe(self, node_id: int) -> PartitionData | None:
        """None if it cannot be asked."""
        try:
            answer = self.client(node_id).ask_for(DescribeQuorumResponse, ABOUT_METADATA, 2)
        except (OSError, ConnectionEnded):
            self.forget_client(node_id)
            return None
        return answer.topics[0].partitions[0]

    def leader_now(self, among: Sequence[int] | None = None) -> Leader | None:
        """The leader of the highest epoch; one that was paused may still think that it leads."""
        found = None
        for node_id in self.running() if among is None else among:
            view = self.describe(node_id)
            if view is None or view.error_code or view.leader_id != node_id:
                continue
            if found is None or view.leader_epoch > found.epoch:
                found = Leader(node_id, view.leader_epoch, view)
        return found

    def running(self) -> list[int]:
        return [node_id for node_id, member in self.members.items() if member.is_running]

    def await_leader(self, among: Sequence[int] | None = None, *, after_epoch: int = -1) -> Leader:
        """One whose high watermark is known: it has committed a record of its epoch."""

        def led() -> Leader | None:
            leader = self.leader_now(among)
            if leader is None or leader.epoch <= after_epoch or leader.view.high_watermark <= 0:
                return None
            return leader

        return self.wait(led, "a leader of the quorum")

    def wait(self, found: Callable[[], FoundT | None], what: str) -> FoundT:
        """What is found as soon as it is; None: not yet."""
        return await_found(found, what, self.members.values(), poll_seconds=POLL_SECONDS)

    def await_voter(self, node_id: int) -> Leader:
        """It votes, and will go on to vote under any next leader. A replica counts the voters of its newest
        record, committed or not (KIP-853): what was in the log when the voter was first seen must be
        committed, or the next leader may know nothing of it."""
        seen: dict[int, int] = {}

        def is_kept() -> Leader | None:
            leader = self.leader_now()
            if leader is None or node_id not in leader.voters:
                return None
            end_offset = seen.setdefault(leader.epoch, leader.end_offset_of(leader.node_id) or 0)
            return leader if leader.view.high_watermark >= end_offset else None

        return self.wait(is_kept, f"voter {node_id}")

    def await_caught_up(self, *node_ids: int) -> Leader:
        """They have what the leader had committed when this was called."""
        target = self.await_leader().view.high_watermark

        def caught_up() -> Leader | None:
            leader = self.leader_now()
            if leader is None or leader.view.high_watermark < target:
                return None
            ends = [leader.end_offset_of(node_id) for node_id in node_ids]
            return leader if all(end is not None and end >= target for end in ends) else None

        return self.wait(caught_up, f"replica {node_ids} that has the log up to {target}")

    def commit(self, value: int) -> Leader:
        """A record of a client through the leader, committed: the cluster's default of one config."""

        def committed() -> Leader | None:
            leader = self.leader_now()
            if leader is None:
                return None
            with suppress(OSError, ConnectionEnded):
                return leader if self._alter(leader.node_id, value) is ErrorCode.NONE else None
            self.forget_client(leader.node_id)
            return None

        return self.wait(committed, "leader that commits a record")

    def _alter(self, node_id: int, value: int) -> ErrorCode:
        answer = self.client(node_id).ask_for(IncrementalAlterConfigsResponse, config_change(value), 1)
        return ErrorCode(answer.responses[0].error_code)

    def close(self) -> None:
        for node_id in list(self._clients):
            self.forget_client(node_id)
        for member in self.members.values():
            member.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_id() -> str:
    return uuid_to_text(random_uuid(SystemRandomSource()))


def config_change(value: int) -> IncrementalAlterConfigsRequest:
    """One small record: `log.retention.ms` of all brokers."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = IncrementalAlterConfigsRequest.AlterableConfig
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                configs=[change(name="log.retention.ms", config_operation=0, value=str(value))],
            )
        ]
    )
