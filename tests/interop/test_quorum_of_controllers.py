"""Three controllers in processes of their own: ours alone, and ours among Apache Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.controller_quorum import Controller, ControllerQuorum, Partition
from tests.support.genuine_kafka import free_ports
from tests.support.tool_server import ToolServer

pytestmark = pytest.mark.java

NOBODY_WAITS_FOR_A_SILENT_LEADER = {"controller.quorum.fetch.timeout.ms": "60000"}
"""So long that an election can only be the consequence of a leader's resignation."""


def ids(replicas: list[object]) -> list[int]:
    return sorted(each.replica_id for each in replicas)  # type: ignore[attr-defined]


def test_a_killed_leader_is_followed_by_another_and_comes_back_as_a_follower(tmp_path: Path) -> None:
    with ControllerQuorum(tmp_path, [False] * 3) as quorum:
        first = quorum.await_leader()
        assert ids(list(first.current_voters)) == [1, 2, 3]
        quorum.node(first.leader_id).kill()
        second = quorum.await_leader(after_epoch=first.leader_epoch)
        assert second.leader_id != first.leader_id
        assert second.high_watermark >= first.high_watermark
        quorum.node(first.leader_id).start()
        third = quorum.await_leader()
        assert (third.leader_id, third.leader_epoch) == (second.leader_id, second.leader_epoch)


def test_a_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    with ControllerQuorum(tmp_path, [False] * 3, NOBODY_WAITS_FOR_A_SILENT_LEADER) as quorum:
        first = quorum.await_leader()
        assert quorum.node(first.leader_id).stop() == 0
        second = quorum.await_leader(after_epoch=first.leader_epoch)
        assert second.leader_epoch == first.leader_epoch + 1


def test_the_tool_describes_adds_and_removes_controllers(tmp_path: Path, tool_server: ToolServer) -> None:
    with ControllerQuorum(tmp_path, [False] * 3) as quorum:
        newcomer = Controller(tmp_path, 4, 0, genuine=False)
        newcomer = _join(quorum, newcomer)
        try:
            told = quorum.await_leader()
            at = ("--bootstrap-controller", quorum.bootstrap_controllers)
            status = tool_server.run("kafka-metadata-quorum", *at, "describe", "--status").lines
            assert f"LeaderId:               {told.leader_id}" in status
            table = tool_server.run("kafka-metadata-quorum", *at, "describe", "--replication").lines
            assert [line.split()[-1] for line in table[1:4]] == ["Leader", "Follower", "Follower"]
            quorum.await_state("4 observes", lambda now: ids(list(now.observers)) == [4])
            added = tool_server.run(
                "kafka-metadata-quorum", *at, "--command-config", str(newcomer.file), "add-controller"
            )
            assert added.code == 0, added
            quorum.await_state("4 votes", lambda now: ids(list(now.current_voters)) == [1, 2, 3, 4])
            leader = quorum.node(told.leader_id)
            removed = tool_server.run(
                "kafka-metadata-quorum", *at, "remove-controller",
                "--controller-id", str(leader.node_id), "--controller-directory-id", leader.directory_id,
            )  # fmt: skip
            assert removed.code == 0, removed
            left = quorum.await_leader(after_epoch=told.leader_epoch)
            assert ids(list(left.current_voters)) == sorted({1, 2, 3, 4} - {leader.node_id})
            assert ids(list(left.observers)) == [leader.node_id]
        finally:
            if newcomer.is_running:
                newcomer.kill()


def _join(quorum: ControllerQuorum, newcomer: Controller) -> Controller:
    newcomer.address = f"127.0.0.1:{free_ports(1)[0]}"
    newcomer.configure({"controller.quorum.bootstrap.servers": quorum.bootstrap_controllers})
    newcomer.format("--no-initial-controllers")
    quorum.controllers.append(newcomer)
    return newcomer.start()


@pytest.mark.parametrize(
    "kinds", [(True, False, True), (True, False, False)], ids=["one of ours", "two of ours"]
)
def test_ours_and_genuine_controllers_lead_and_follow_each_other(
    tmp_path: Path, kinds: tuple[bool, ...]
) -> None:
    """A leader that stops prefers, of equally long logs, the one with the lowest id: nodes 1 and 2 take
    turns."""
    with ControllerQuorum(tmp_path, kinds) as quorum:
        told = quorum.await_leader()
        led_by = {quorum.node(told.leader_id).genuine}
        for _ in range(3):
            if led_by == {True, False}:
                break
            leader = quorum.node(told.leader_id)
            leader.stop()
            told = quorum.await_leader(after_epoch=told.leader_epoch)
            led_by.add(quorum.node(told.leader_id).genuine)
            leader.start()
            told = quorum.await_leader(after_epoch=told.leader_epoch - 1)
        assert led_by == {True, False}
        _assert_registered(quorum)
        lost = quorum.node(told.leader_id)
        lost.kill()
        after = quorum.await_leader(after_epoch=told.leader_epoch)
        assert after.high_watermark >= told.high_watermark
        _assert_equal_logs(quorum, after)


def _assert_registered(quorum: ControllerQuorum) -> None:
    """Each controller says where all of them listen, as it has learned from the log (KIP-919)."""
    expected = {each.node_id: int(each.address.rpartition(":")[2]) for each in quorum.controllers}
    for each in quorum.controllers:
        quorum.await_listed(each, expected)


def _assert_equal_logs(quorum: ControllerQuorum, told: Partition) -> None:
    """What is committed lies in all logs, byte for byte."""
    logs = [
        (each.data / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
        for each in quorum.controllers
        if each.is_running
    ]
    shortest = min(len(log.rstrip(b"\0")) for log in logs)
    assert shortest > 1_000
    assert len({log[:shortest] for log in logs}) == 1
    assert told.high_watermark > 0
