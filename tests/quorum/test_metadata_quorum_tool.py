"""The genuine tools at a quorum of ours: described, joined, left. KIP-836, KIP-853, KIP-919."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.quorum import OURS, Leader, Quorum
from tests.support.brokers.voter_changes import change_voters
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory, tool_server: ToolServer) -> Iterator[Quorum]:
    with Quorum(tmp_path_factory.mktemp("quorum"), [OURS] * 3, tools=tool_server).format() as quorum:
        quorum.start().await_caught_up(1, 2, 3)
        yield quorum


def call(
    quorum: Quorum, *words: str, tool: str = "kafka-metadata-quorum", first: str = "", at: str = ""
) -> ToolResult:
    """at: which controller is asked first; any of them, if it is not said."""
    if quorum.tools is None:
        raise ValueError("a quorum without tools")
    return quorum.tools.run(
        tool, *([first] if first else []), "--bootstrap-controller", at or quorum.bootstrap, *words
    )


def table(result: ToolResult) -> list[dict[str, str]]:
    """Rows by column."""
    heads, *rows = [line.split() for line in result.lines if line.strip()]
    return [dict(zip(heads, row, strict=False)) for row in rows]


def described(quorum: Quorum, *words: str) -> tuple[Leader, ToolResult]:
    """What the tool tells of the quorum, asked again if another leader came meanwhile, and that leader."""

    def of_one_leader() -> tuple[Leader, ToolResult] | None:
        leader = quorum.await_leader()
        done = call(quorum, "describe", *words)
        assert done.code == 0, done
        return (leader, done) if quorum.await_leader().epoch == leader.epoch else None

    return quorum.wait(of_one_leader, "description of one leader's time")


def test_describe_status(quorum: Quorum) -> None:
    def with_followers_at_hand() -> tuple[Leader, dict[str, str]] | None:
        """A leader has no time for a follower that has not caught up since it was elected (-1)."""
        leader, done = described(quorum, "--status")
        told = dict(line.split(":", 1) for line in done.lines)
        return (leader, told) if int(told["MaxFollowerLagTimeMs"]) >= 0 else None

    leader, told = quorum.wait(with_followers_at_hand, "followers that have caught up")
    assert told["ClusterId"].split() == [quorum.cluster_id]
    assert int(told["LeaderId"]) == leader.node_id
    assert int(told["LeaderEpoch"]) == leader.epoch
    assert int(told["HighWatermark"]) >= leader.view.high_watermark
    assert 0 <= int(told["MaxFollowerLag"]) < 10
    assert 0 <= int(told["MaxFollowerLagTimeMs"]) < 5_000
    voters = told["CurrentVoters"]
    for member in quorum.members.values():
        assert f'"id": {member.node_id}, "directoryId": "{member.directory_id}"' in voters
        assert f'"CONTROLLER://{member.address}"' in voters or f"CONTROLLER://{member.address}" in voters
    assert told["CurrentObservers"].strip() == "[]"


@pytest.mark.parametrize("human", [(), ("--human-readable",)], ids=["numbers", "words"])
def test_describe_replication(quorum: Quorum, human: tuple[str, ...]) -> None:
    leader, done = described(quorum, "--replication", *human)
    rows = table(done)
    assert sorted(int(row["NodeId"]) for row in rows) == [1, 2, 3]
    by_id = {int(row["NodeId"]): row for row in rows}
    assert {row["DirectoryId"] for row in rows} == {each.directory_id for each in quorum.members.values()}
    assert all(int(row["Lag"]) < 10 for row in rows)
    # Times are numbers, or "7 ms ago". A random directory id may contain "ms" too, so words are compared.
    assert all(("ms" in line.split()) == bool(human) for line in done.lines[1:] if line.strip())
    roles = {node_id: done.lines[1 + list(by_id).index(node_id)].split()[-1] for node_id in by_id}
    assert roles == {n: "Leader" if n == leader.node_id else "Follower" for n in by_id}


def test_other_tools_that_ask_controllers(quorum: Quorum) -> None:
    features = call(quorum, "describe", tool="kafka-features")
    assert features.code == 0, features
    assert any("metadata.version" in line and "4.3-IV0" in line for line in features.lines), features
    assert any("kraft.version" in line and "FinalizedVersionLevel: 1" in line for line in features.lines)
    cluster = call(quorum, tool="kafka-cluster", first="cluster-id")
    assert cluster.out.strip() == f"Cluster ID: {quorum.cluster_id}"
    leader = quorum.await_leader()
    entity = ("--entity-type", "brokers", "--entity-default")
    changed = call(
        quorum, "--alter", *entity, "--add-config", "log.retention.ms=86400001", tool="kafka-configs"
    )
    assert changed.code == 0, changed
    told = call(quorum, "--describe", *entity, tool="kafka-configs")
    assert "log.retention.ms=86400001" in told.out, told
    assert quorum.await_leader().epoch == leader.epoch


def test_controllers_join_and_leave_by_the_tool(quorum: Quorum) -> None:
    joining = quorum.add(4, OURS)
    joining.format(quorum.cluster_id, "--no-initial-controllers")
    joining.start()
    leader = quorum.wait(lambda: _with_observers(quorum, [4]), "observer 4")
    assert leader.voters == [1, 2, 3]
    config = ("--command-config", str(joining.properties_file))
    added = change_voters(quorum, quorum.bootstrap, *config, "add-controller")
    assert "Added controller 4" in added.out
    leader = quorum.await_caught_up(4)
    assert leader.voters == [1, 2, 3, 4]
    again = call(quorum, *config, "add-controller")
    assert again.code == 1
    assert "DuplicateVoterException" in again.out + again.err
    goes = quorum.members[leader.node_id]
    words = ("--controller-id", str(goes.node_id), "--controller-directory-id", goes.formatted_directory_id())
    change_voters(quorum, quorum.bootstrap, "remove-controller", *words)
    after = quorum.await_leader(after_epoch=leader.epoch)  # who removes itself leads no more
    assert after.voters == sorted({1, 2, 3, 4} - {goes.node_id})
    again = call(quorum, "remove-controller", *words, at=goes.address)  # which may not know who leads yet
    assert again.code == 1
    assert "VoterNotFoundException" in again.out + again.err
    quorum.commit(1_000_001)
    goes.stop()
    quorum.members.pop(goes.node_id)


def test_a_controller_joins_by_itself_if_it_may(quorum: Quorum) -> None:
    joining = quorum.add(5, OURS, properties={"controller.quorum.auto.join.enable": "true"})
    joining.format(quorum.cluster_id, "--no-initial-controllers")
    joining.start()
    leader = quorum.await_voter(5)
    assert len(leader.voters) == 4
    quorum.members[leader.node_id].kill()
    assert quorum.await_leader(after_epoch=leader.epoch).voters == leader.voters
    quorum.members[leader.node_id].start()
    quorum.await_caught_up(*quorum.members)


def _with_observers(quorum: Quorum, observers: list[int]) -> Leader | None:
    leader = quorum.leader_now()
    return leader if leader is not None and leader.observers == observers else None
