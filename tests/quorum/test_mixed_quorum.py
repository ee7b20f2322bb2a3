"""Controllers of ours and of Apache Kafka in one quorum: each leads, each is lost, all have the same log.

Whoever leads is stopped, and so each leads in turn; the leader of the moment commits a client's record and
has an observer added to the voters and removed again. Then each is killed in turn. In the end the committed
part of each log prints the same through the genuine kafka-dump-log, record by record.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.quorum.conftest import NewQuorum
from tests.support.brokers.quorum import DYNAMIC, KAFKAS, OURS, STATIC, Leader, Quorum
from tests.support.brokers.quorum_members import OurController
from tests.support.brokers.voter_changes import change_voters

pytestmark = pytest.mark.java

CONTROLLERS: Final = 2
BATCH: Final = re.compile(r"^(baseOffset: \d+ .*?) position: \d+ (.*)$")
RECORD: Final = re.compile(r"^\| offset: (\d+) ")
SEEN_IN_A_LIFE: Final = (
    "LeaderChange",
    "KRaftVersion",
    "KRaftVoters",
    "FEATURE_LEVEL_RECORD",
    "NO_OP_RECORD",
    "CONFIG_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "END_TRANSACTION_RECORD",
)


@pytest.mark.parametrize(
    ("kinds", "voters"),
    [((KAFKAS, OURS, KAFKAS), DYNAMIC), ((OURS, KAFKAS, OURS), DYNAMIC), ((OURS, KAFKAS, KAFKAS), STATIC)],
    ids=["one of ours", "two of ours", "static voters"],
)
def test_ours_and_genuine_controllers_keep_one_log(
    new_quorum: NewQuorum, kinds: tuple[str, ...], voters: str
) -> None:
    quorum = new_quorum(*kinds, voters=voters)
    led = _all_lead(quorum, may_change_voters=voters == DYNAMIC)
    assert led == {True, False}
    for value, lost in enumerate(sorted(quorum.members), 3_000_000):
        quorum.members[lost].kill()
        quorum.commit(value)
        quorum.members[lost].start()
        quorum.await_caught_up(1, 2, 3)
    _assert_registered(quorum)
    end = quorum.await_caught_up(1, 2, 3).view.high_watermark
    for member in quorum.members.values():
        member.stop()
    logs = [_dump(quorum, node_id, end) for node_id in quorum.members]
    assert logs[0] == logs[1] == logs[2]
    text = "\n".join(logs[0])
    missing = [word for word in SEEN_IN_A_LIFE if word not in text]
    assert missing == ([] if voters == DYNAMIC else ["KRaftVersion", "KRaftVoters"]), text[:4000]


def _all_lead(quorum: Quorum, *, may_change_voters: bool) -> set[bool]:
    """Which sides have led (ours: True): the leader stops until both have, at most six times."""
    led: set[bool] = set()
    for value in range(2_000_000, 2_000_006):
        leader = quorum.await_caught_up(1, 2, 3)
        is_ours = isinstance(quorum.members[leader.node_id], OurController)
        if is_ours not in led:
            led.add(is_ours)
            quorum.commit(value)
            _assert_serves(quorum, leader)
            if may_change_voters:
                _change_voters(quorum, node_id=10 + len(led))
        if len(led) == 2:
            break
        others = [node_id for node_id in quorum.members if node_id != leader.node_id]
        other_side = [n for n in others if isinstance(quorum.members[n], OurController) != is_ours]
        same_side = [n for n in others if n not in other_side]
        for node_id in same_side:  # while it is away, its records are not: the other side's log is longer
            quorum.members[node_id].kill()
        quorum.commit(value + 100)
        quorum.members[leader.node_id].ask_to_stop()
        for node_id in same_side:
            quorum.members[node_id].start()
        quorum.await_leader(others, after_epoch=leader.epoch)
        quorum.members[leader.node_id].stop()
        quorum.members[leader.node_id].start()
    return led


def _assert_serves(quorum: Quorum, leader: Leader) -> None:
    """A genuine controller leads a moment before it tells the levels of its log."""

    def has_level() -> bool | None:
        client = quorum.client(leader.node_id)
        versions = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("test", "1"), 4)
        levels = {each.name: each.max_version_level for each in versions.finalized_features}
        return levels.get("metadata.version") == 30 or None

    quorum.wait(has_level, f"level 30 told by controller {leader.node_id}")
    assert leader.voters == [1, 2, 3]
    assert {state.log_end_offset > 0 for state in leader.view.current_voters} == {True}


def _change_voters(quorum: Quorum, node_id: int) -> None:
    """A controller of ours joins the voters by the genuine tool, and leaves them, and goes."""
    joining = quorum.add(node_id, OURS)
    joining.format(quorum.cluster_id, "--no-initial-controllers")
    joining.start()
    quorum.wait(lambda: _observed(quorum, node_id), f"observer {node_id}")
    config = ("--command-config", str(joining.properties_file))
    change_voters(quorum, quorum.bootstrap, *config, "add-controller")
    assert quorum.await_caught_up(node_id).voters == [1, 2, 3, node_id]
    directory_id = joining.formatted_directory_id()
    which = ("--controller-id", str(node_id), "--controller-directory-id", directory_id)
    change_voters(quorum, quorum.bootstrap, "remove-controller", *which)
    assert quorum.await_leader().voters == [1, 2, 3]
    joining.kill()
    quorum.forget_client(node_id)
    del quorum.members[node_id]


def _observed(quorum: Quorum, node_id: int) -> Leader | None:
    leader = quorum.leader_now()
    return leader if leader is not None and node_id in leader.observers else None


def _assert_registered(quorum: Quorum) -> None:
    """Each controller says where all of them listen, as it has learned from the log (KIP-919); one that has
    just started learns it a moment after its log has caught up."""
    ports = {node_id: member.port for node_id, member in quorum.members.items()}
    for node_id in quorum.members:

        def told(node_id: int = node_id) -> bool | None:
            request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
            answer = quorum.client(node_id).ask_for(DescribeClusterResponse, request, 2)
            return ports.items() <= {each.broker_id: each.port for each in answer.brokers}.items() or None

        quorum.wait(told, f"an answer of controller {node_id} that names all of {ports}")


def _dump(quorum: Quorum, node_id: int, end: int) -> list[str]:
    """Batches and records below `end`, without where in the file they lie."""
    if quorum.tools is None:
        raise ValueError("a quorum without tools")
    file = quorum.members[node_id].metadata_log / f"{0:020d}.log"
    done = quorum.tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(file))
    assert done.code == 0, done
    lines: list[str] = []
    for line in done.lines[2:]:  # which file, and where its log begins
        batch = BATCH.match(line)
        record = RECORD.match(line)
        first = int(line.split()[1]) if batch else int(record[1]) if record else 0
        if first >= end:
            break
        lines.append(f"{batch[1]} {batch[2]}" if batch else line)
    assert lines
    return lines
