"""Subscriptions by regular expression, in the syntax of RE2, matched by the coordinator.

An expression is looked at when its first member comes, when topics have been made since, and from time to
time. Matching is linear in the length of a name, whatever the expression, and it goes on beside the
heartbeats: the first answer of a member whose expression is new holds no partitions, and when the matches are
recorded the group's epoch grows. An expression that needs too much memory is refused as one that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from enum import Enum
from typing import Any, Final

from broker.coordinator import expressions
from broker.coordinator.consumer.consumer_group import ConsumerGroup
from broker.coordinator.consumer.consumer_group_records import epoch_record, regex_record
from broker.coordinator.consumer.member import ConsumerGroupMember
from broker.coordinator.consumer.metadata_hash import group_hash
from broker.coordinator.consumer.operation import ConsumerOperation, GroupRefusal, TopicsView
from broker.coordinator.consumer.subscriptions import ResolvedRegex, Subscriptions
from protocol.errors import ErrorCode

LEAST_REFRESH_INTERVAL_MS: Final = 10_000
"""The least time between two matches of an expression, which is fixed as in Kafka."""
WORK_PER_STEP: Final = 1_000_000
"""The work of one step of a search, in instructions of expressions that are tried at characters of names. It
takes one or two milliseconds at most."""
WORK_PER_MATCH: Final = 3_000
"""What a match takes besides."""
NEVER: Final = -(2**63)


class RegexChange(Enum):
    """What a heartbeat changes about the expression of its member."""

    NONE = "none"
    UPDATED = "another expression, which is not resolved yet"
    RESOLVED = "another expression, or none: what it matches is known"


def compiled(regex: str) -> Any:
    """Compiles an expression. Raises GroupRefusal (INVALID_REGULAR_EXPRESSION)."""
    try:
        return expressions.compiled(regex)
    except expressions.WrongExpression as problem:
        raise GroupRefusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}.",
        ) from None


def change_regex(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    updated: ConsumerGroupMember,
    operation: ConsumerOperation,
) -> RegexChange:
    """Records that an expression has lost its last member, and asks for a new match of all expressions if it
    is time."""
    old, new = member.subscribed_topic_regex or "", updated.subscribed_topic_regex or ""
    counts = group.subscriptions.regexes
    change = RegexChange.NONE
    is_new = False
    if member.subscribed_topic_regex != updated.subscribed_topic_regex:
        change = RegexChange.UPDATED
        if old and counts.get(old) == 1:
            operation.records.append(regex_record(group.group_id, old, None))
        if new and new not in counts:
            compiled(new)
            is_new = True
        elif new in group.resolved or (not new and old):
            change = RegexChange.RESOLVED
    if is_new or counts:
        _ask_for_a_look(group, old, new, operation, is_new=is_new)
    return change


def _ask_for_a_look(
    group: ConsumerGroup, old: str, new: str, operation: ConsumerOperation, *, is_new: bool
) -> None:
    last = next(iter(group.resolved.values()), None)
    now_ms, last_ms = operation.now.wall_ms, NEVER if last is None else last.timestamp_ms
    if group.is_resolving or now_ms <= last_ms + LEAST_REFRESH_INTERVAL_MS:
        return
    counts = dict(group.subscriptions.regexes)
    for regex, step in ((old, -1), (new, 1)):
        if regex:
            counts[regex] = counts.get(regex, 0) + step
    regexes = [regex for regex, count in counts.items() if count > 0]
    interval_ms = operation.settings.group_consumer_regex_refresh_interval_ms
    if regexes and (
        is_new
        or len(regexes) != len(group.resolved)
        or (0 if last is None else last.version) < operation.topics.newest_topic_version
        or now_ms > last_ms + interval_ms
    ):
        operation.refresh = regexes


def search_topics(
    before: Mapping[str, frozenset[str]],
    topics: TopicsView,
    may_describe: Callable[[str], bool],
    now_wall_ms: int,
) -> Generator[None, None, Mapping[str, ResolvedRegex]]:
    """The topics that each expression matches, found in steps between which the loop does other work.

    `before` names what each expression has matched until now. Only topics are matched that the client of the
    heartbeat may describe. An expression that cannot be compiled, which only Apache Kafka may have taken,
    matches what it has matched before. A topic that is created meanwhile is newer than the version that is
    noted, so the next heartbeat asks again.
    """
    version = topics.newest_topic_version
    found: dict[str, set[str]] = {}
    programs = []
    for regex in before:
        try:
            program = compiled(regex)
        except GroupRefusal:
            continue
        found[regex] = set()
        programs.append((regex, program.fullmatch, program.programsize))
        yield
    work = 0
    for name in topics.topic_names():
        is_shown = None
        for regex, fullmatch, instructions in programs:
            if work > WORK_PER_STEP:
                yield
                work = 0
            work += WORK_PER_MATCH + instructions * len(name)
            if fullmatch(name) is None:
                continue
            if is_shown is None:
                is_shown = may_describe(name)
            if is_shown:
                found[regex].add(name)
    return {
        regex: ResolvedRegex(frozenset(found.get(regex, known)), version, now_wall_ms)
        for regex, known in before.items()
    }


def matched_topics(resolved: ResolvedRegex | None) -> frozenset[str]:
    """The topics that an expression has matched; none before it was matched."""
    return frozenset() if resolved is None else resolved.topics


def record_matches(
    group: ConsumerGroup, found: Mapping[str, ResolvedRegex], operation: ConsumerOperation
) -> None:
    """Records what the expressions match, and raises the epoch if that has changed."""
    subscriptions: Subscriptions = group.subscriptions.copy()
    grows = False
    for regex, resolved in found.items():
        if regex not in subscriptions.regexes:
            continue
        before = group.resolved.get(regex)
        if matched_topics(before) != resolved.topics:
            grows = True
            subscriptions.change_resolved(before, resolved)
        operation.records.append(regex_record(group.group_id, regex, resolved))
    metadata_hash = group_hash(subscriptions.names(), operation.topics)
    if grows or metadata_hash != group.metadata_hash:
        group.needs_metadata_check = False
        group.checked_in_epoch = group.epoch + 1
        operation.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
