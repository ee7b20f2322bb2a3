"""Our decisions are those of Apache Kafka's own classes: the same random cases through both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest

from controller.metadata.image.topics import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    PartitionRegistration,
)
from controller.subjects.partition_change import Election, change_partition
from controller.subjects.placement import UsableBroker, place_replicas
from controller.subjects.result import ControllerError
from protocol.metadata_log.topics import PartitionChangeRecord
from protocol.values import uuid_from_text
from tests.support.genuine.java_oracle.message_oracle import decisions

pytestmark = pytest.mark.java

CASES = 20_000
BROKERS = (0, 1, 2, 3, 4, 5)


def directory(kind: int, number: int) -> bytes:
    return kind.to_bytes(8) + number.to_bytes(8)


def some(random: Random, brokers: tuple[int, ...], least: int = 0) -> tuple[int, ...]:
    return tuple(random.sample(brokers, random.randint(min(least, len(brokers)), len(brokers))))


def partition_of(random: Random) -> PartitionRegistration:
    replicas = some(random, BROKERS, 1)
    isr = some(random, replicas)
    elr = tuple(sorted(some(random, tuple(r for r in replicas if r not in isr))))
    moves = random.random() < 0.4
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(directory(6, replica) for replica in replicas),
        isr=isr,
        removing=some(random, replicas) if moves else (),
        adding=some(random, replicas) if moves else (),
        elr=elr if random.random() < 0.5 else (),
        last_known_elr=some(random, replicas)[:2] if random.random() < 0.4 else (),
        leader=random.choice((NO_LEADER, *(isr or replicas))),
        leader_recovery_state=random.choice((0, 0, 1)),
    )


def wish_of(random: Random, partition: PartitionRegistration) -> dict[str, Any]:
    wish: dict[str, Any] = {}
    if random.random() < 0.6:
        wish["isr"] = some(random, partition.replicas)
    if random.random() < 0.3:
        # Whom the change brings is not in the ISR, as with all that ask for other replicas.
        new = tuple(broker for broker in BROKERS if broker not in partition.replicas)
        kept = some(random, partition.replicas, 1)
        added = some(random, new)
        wish["replicas"] = (*kept, *added)
        wish["isr"] = tuple(replica for replica in wish.get("isr", partition.isr) if replica in kept)
        wish["adding"] = added if random.random() < 0.8 else ()
        wish["removing"] = some(random, kept)
    if random.random() < 0.2:
        wish["unclean_shutdown"] = random.choice(partition.replicas)
    if random.random() < 0.1:
        wish["leader_recovery_state"] = random.choice((0, 1))
    if random.random() < 0.1:
        wish["directories"] = {random.choice(partition.replicas): random.randrange(8)}
    return wish


def changes() -> Iterator[
    tuple[PartitionRegistration, dict[str, Any], tuple[int, ...], int | None, Election]
]:
    random = Random(966)
    for _ in range(CASES):
        partition = partition_of(random)
        wish = wish_of(random, partition)
        min_isr = random.choice((None, 1, 2, 3))
        yield partition, wish, some(random, BROKERS), min_isr, random.choice(list(Election))


def question(
    partition: PartitionRegistration,
    wish: Mapping[str, Any],
    active: tuple[int, ...],
    min_isr: int | None,
    election: Election,
) -> dict[str, Any]:
    fields = "replicas isr removing adding elr last_known_elr leader leader_recovery_state"
    state = {name: getattr(partition, name) for name in fields.split()}
    return {
        "change": {
            "partition": state,
            "active": active,
            "min_isr": min_isr,
            "election": election.name,
            **wish,
        }
    }


def told(record: PartitionChangeRecord | None) -> dict[str, Any] | None:
    """What the record changes."""
    if record is None:
        return None
    found: dict[str, Any] = {}
    if record.leader != NO_LEADER_CHANGE:
        found["leader"] = record.leader
    if record.leader_recovery_state != NO_RECOVERY_CHANGE:
        found["leaderRecoveryState"] = record.leader_recovery_state
    fields = {
        "isr": record.isr,
        "replicas": record.replicas,
        "removingReplicas": record.removing_replicas,
        "addingReplicas": record.adding_replicas,
        "eligibleLeaderReplicas": record.eligible_leader_replicas,
        "lastKnownElr": record.last_known_elr,
        "directories": record.directories,
    }
    return found | {name: value for name, value in fields.items() if value is not None}


def theirs(answer: dict[str, Any] | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    found = {key: value for key, value in answer.items() if key not in ("partitionId", "topicId")}
    if "directories" in found:
        found["directories"] = [uuid_from_text(text) for text in found["directories"]]
    return found


def test_changes_of_partitions_are_those_of_the_partition_change_builder() -> None:
    cases = list(changes())
    answers = decisions(question(*case) for case in cases)
    seen = {"null": 0, "elr": 0, "last_known": 0, "unclean": 0, "moved": 0}
    for case, answer in zip(cases, answers, strict=True):
        partition, wish, active, min_isr, election = case
        ours_wish = dict(wish)
        if "directories" in wish:
            ours_wish["directories"] = {k: directory(8, v) for k, v in wish["directories"].items()}
        record = change_partition(
            b"t" * 16,
            0,
            partition,
            is_active=lambda broker, active=active: broker in active,  # type: ignore[misc]
            election=election,
            min_isr=min_isr,
            directory_of=lambda broker: directory(7, broker),
            **ours_wish,
        )
        expected = theirs(answer)
        assert told(record) == expected, case
        seen["null"] += expected is None
        if expected is not None:
            seen["elr"] += bool(expected.get("eligibleLeaderReplicas"))
            seen["last_known"] += "lastKnownElr" in expected
            seen["unclean"] += expected.get("leaderRecoveryState") == 1
            seen["moved"] += "replicas" in expected
    assert min(seen.values()) > CASES // 200, f"each kind of change came up often: {seen}"


class ByBound:
    """`config.ports.RandomSource` whose numbers depend on nothing but the bound."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def below(self, bound: int) -> int:
        return self._seed % bound

    def fraction(self) -> float:
        return 0.0


def clusters() -> Iterator[tuple[list[UsableBroker], int, int, int]]:
    random = Random(36)
    for _ in range(3_000):
        racks = [None, *"abc"][: random.randint(1, 4)]
        size = random.randint(1, 9)
        often = random.choice((0.0, 0.2, 0.6))
        brokers = [
            UsableBroker(broker, random.choice(racks), random.random() < often)
            for broker in random.sample(range(30), size)
        ]
        if all(broker.fenced for broker in brokers):
            brokers[0] = brokers[0]._replace(fenced=False)
        yield brokers, random.randint(1, 20), random.randint(1, size), random.randrange(1000)


def test_placements_are_those_of_the_striped_replica_placer() -> None:
    cases = list(clusters())
    answers = decisions(
        {"place": {"brokers": brokers, "partitions": partitions, "factor": factor, "seed": seed}}
        for brokers, partitions, factor, seed in cases
    )
    for (brokers, partitions, factor, seed), answer in zip(cases, answers, strict=True):
        placed = place_replicas(brokers, partitions, factor, ByBound(seed))
        assert placed == answer["placed"], (brokers, partitions, factor, seed)


@pytest.mark.parametrize("brokers", [[UsableBroker(1, None, True)], [UsableBroker(1, None, False)], []])
def test_a_refused_placement_says_what_kafka_says(brokers: list[UsableBroker]) -> None:
    factor = 1 if brokers and brokers[0].fenced else 2
    question = {"place": {"brokers": brokers, "partitions": 1, "factor": factor, "seed": 0}}
    (answer,) = decisions([question])
    with pytest.raises(ControllerError) as caught:
        place_replicas(brokers, 1, factor, ByBound(0))
    assert caught.value.message == answer["refused"]
