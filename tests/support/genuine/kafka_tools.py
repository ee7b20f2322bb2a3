"""The genuine command line tools, called as their kafka-*.sh scripts call them.

A call takes about a second, nearly all of it Java's start.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from tests.support.genuine.kafka_jars import java_command

CLASSES: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


LINES_SECONDS: Final = 120
"""For the next lines of a tool that goes on."""


class ToolResult(NamedTuple):
    """What a tool printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def tool_command(name: str, *arguments: str) -> list[str]:
    return java_command(CLASSES[name], *arguments)


def run_tool(name: str, *arguments: str, stdin: str = "", timeout_seconds: float = 180) -> ToolResult:
    """Run one tool to its end. Text that it was given on standard input is UTF-8."""
    done = subprocess.run(
        tool_command(name, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    return ToolResult(done.returncode, done.stdout, done.stderr)


@contextmanager
def running_tool(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A tool that goes on while the test does other things; killed at the end."""
    process = subprocess.Popen(
        tool_command(name, *arguments),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def read_lines(process: subprocess.Popen[str], count: int, seconds: float = LINES_SECONDS) -> list[str]:
    """The next lines that it prints. Fails, with what it has said on its standard error, if it ends before,
    or is silent for so long."""
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("the tool's output is not a pipe")
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()
    try:
        lines = [process.stdout.readline() for _ in range(count)]
    finally:
        watchdog.cancel()
    if "" in lines:
        code = process.wait(LINES_SECONDS)
        read = sum(map(bool, lines))
        pytest.fail(f"it ended with {code} after {read} of {count} lines:\n{process.stderr.read()}")
    return [line.rstrip("\n") for line in lines]
