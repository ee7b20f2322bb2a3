"""What a fuzz has to say, and what of it is a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.support.fuzz.broker_log import Fault, SlowTurn
from tests.support.fuzz.watcher import Watched

MIB: Final = 1 << 20
ROUND_TRIP_MS: Final = 250
RESIDENT_BYTES: Final = 256 * MIB
LEAST_TRIPS: Final = 200

KAFKA_STUMBLES_TOO: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AllocateProducerIds": "no block of ids is left below 2^63",
        "CreatePartitions": "more partitions than one batch of the metadata log can hold",
        "DescribeTopicPartitions": "a topic without a name",
        "IncrementalAlterConfigs": "an operation that nobody knows",
        "Fetch": "an isolation level that nobody knows, a negative limit",
        "ListOffsets": "an isolation level that nobody knows",
        "OffsetCommit": "more offsets than a batch of the offsets topic may hold",
        "JoinGroup": "an instance id beside a member id that is pending, or a group too large for its record",
    }
)
"""Where UNKNOWN_SERVER_ERROR is Apache Kafka's own answer, and to what."""


class Verdict(NamedTuple):
    """All that a run has to say.

    exit_code: of a broker that ended under the attack. wrong: requests whose answer did not come, or could
    not be read. unknown_errors: by API, the request that was answered with UNKNOWN_SERVER_ERROR first.
    """

    sent: int
    answers: int
    exit_code: int | None
    watched: Watched
    peak_bytes: int
    faults: list[Fault]
    slow_turns: list[SlowTurn]
    wrong: list[str]
    unknown_errors: dict[str, str]
    growth: list[str]
    late: Counter[str]
    never_asked: list[str]
    """APIs and versions that are offered."""


def complaints(verdict: Verdict) -> list[str]:
    """What must not be; nothing if all is well."""
    found = []
    watched = verdict.watched
    if verdict.exit_code is not None:
        found.append(f"the broker ended with {verdict.exit_code}")
    found += sorted({f"our fault: {each.what} at {each.where}: {each.said}" for each in verdict.faults})
    found += verdict.wrong[:20]
    found += [
        f"UNKNOWN_SERVER_ERROR answers {story}"
        for name, story in verdict.unknown_errors.items()
        if name not in KAFKA_STUMBLES_TOO
    ]
    if watched.error or watched.trips < LEAST_TRIPS:
        found.append(f"another client had {watched.trips} answers, then: {watched.error or 'nothing'}")
    found += long_waits(verdict)
    if verdict.peak_bytes > RESIDENT_BYTES:
        found.append(f"the broker took {verdict.peak_bytes // MIB} MiB")
    return found


def long_waits(verdict: Verdict) -> list[str]:
    """That another client waited too long for the broker's loop; nothing if it did not."""
    watched = verdict.watched
    if watched.worst_own_ms <= ROUND_TRIP_MS:
        return []
    return [f"another client waited {watched.worst_own_ms:.0f} ms for the loop: {watched.slow[0]}"]


def told(verdict: Verdict) -> str:
    """The verdict for people."""
    watched = verdict.watched
    lines = [
        f"{verdict.sent} requests, {verdict.answers} answers, peak memory {verdict.peak_bytes // MIB} MiB",
        f"{watched.trips} round trips of another client, at worst {watched.worst_own_ms:.0f} ms by our fault",
        f"exit code {verdict.exit_code}; watcher: {watched.error or 'well'}",
    ]
    lines += [
        f"  slow: {each.what} {each.took_ms:.0f} ms, ours {each.own_ms:.0f}, loop {each.broker_ran_ms:.0f}"
        for each in watched.slow[:12]
    ]
    stacks = Counter((fault.where, fault.what) for fault in verdict.faults)
    said = {(fault.where, fault.what): fault.said for fault in verdict.faults}
    lines += [
        f"  fault x{count}: {key[1]} at {key[0]}\n      {said[key]}" for key, count in stacks.most_common()
    ]
    turns = sorted(verdict.slow_turns, key=lambda turn: -turn.took_ms)
    lines += [
        f"  turn of {turn.took_ms} ms: {turn.request} ({turn.client}) {turn.where}" for turn in turns[:40]
    ]
    lines += [
        f"  UNKNOWN_SERVER_ERROR: {name}: {story}" for name, story in sorted(verdict.unknown_errors.items())
    ]
    lines += [f"  memory: {each}" for each in verdict.growth]
    lines += [f"  no answer within patience: {dict(verdict.late.most_common())}"]
    if 0 < len(verdict.never_asked) <= 50:
        lines.append(f"  never asked: {', '.join(verdict.never_asked)}")
    return "\n".join(lines)
