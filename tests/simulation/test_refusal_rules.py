"""What the leader of a partition may not refuse, and what others may."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.simulation.cluster.cluster_world import AskedBroker, RefusedPart
from broker.simulation.rules.refusal_rules import IN_ORDER, KNOWS
from broker.simulation.verdict import without_logs
from tests.simulation.traffic import Traffic, strikes

COMMITTED_END = 3


class Refusing:
    """A cluster whose rules are told of refusals that nobody has made."""

    def __init__(self) -> None:
        self.traffic = Traffic(1)
        self.traffic.write(COMMITTED_END)
        self.world = self.traffic.world
        leader = self.traffic.leader
        assert leader is not None
        self.leader_id = leader.node_id

    def refuse(
        self, offset: int | None, *, node_id: int | None = None, asked_at_ms: float | None = None
    ) -> None:
        """By the leader, who was asked just now, unless it is said."""
        asked = AskedBroker(
            self.leader_id if node_id is None else node_id,
            self.world.now_ms if asked_at_ms is None else asked_at_ms,
        )
        refused = RefusedPart("client-1", asked, self.traffic.topic_id, 0, offset, "no")
        for judge in self.world.refusal_listeners:
            judge(refused)


@pytest.fixture
def refusing() -> Iterator[Refusing]:
    with without_logs():
        yield Refusing()


@pytest.mark.parametrize("offset", [0, COMMITTED_END])
def test_a_leader_has_all_that_is_committed(refusing: Refusing, offset: int) -> None:
    strikes(KNOWS, lambda: refusing.refuse(offset))


def test_a_leader_has_all_sequences_that_were_acknowledged(refusing: Refusing) -> None:
    strikes(IN_ORDER, lambda: refusing.refuse(None))


def test_positions_outside_the_committed_log_may_be_refused(refusing: Refusing) -> None:
    refusing.refuse(COMMITTED_END + 1)
    replica = refusing.traffic.seen.replicas[refusing.leader_id]
    replica.now = replica.now._replace(log_start_offset=2)
    refusing.refuse(1)


@pytest.mark.parametrize("offset", [0, None])
def test_others_than_the_leader_may_refuse(refusing: Refusing, offset: int | None) -> None:
    for follower in refusing.traffic.followers:
        refusing.refuse(offset, node_id=follower.node_id)
    refusing.refuse(offset, asked_at_ms=0)
    refusing.traffic.seen.leaders[1_000] = (9, 1)
    refusing.refuse(offset)
    assert refusing.world.coverage.counts["refused by who may have been replaced"] == 4


def test_nothing_is_said_where_committed_records_were_lost(refusing: Refusing) -> None:
    refusing.traffic.seen.unclean_epoch = 0
    refusing.refuse(0)
    refusing.refuse(None)
