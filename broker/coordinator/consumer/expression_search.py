"""The search for topics that match expressions, in steps between which the loop does its other work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from broker.coordinator.consumer.operation import TopicsView
from broker.coordinator.consumer.regexes import match
from broker.coordinator.consumer.subscriptions import ResolvedRegex
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext

NAMES_PER_STEP: Final = 500
"""Names of topics: some milliseconds."""


class ExpressionSearch:
    """Made when a heartbeat asks for it; the client whose heartbeat that was sees what it may see."""

    def __init__(
        self, regexes: Sequence[str], topics: TopicsView, context: RequestContext, now_wall_ms: int
    ) -> None:
        self._context = context
        self._started_ms = now_wall_ms
        self._version = topics.newest_topic_version
        self._found: dict[str, set[str]] = {regex: set() for regex in regexes}
        self._matches = match(regexes, topics.topic_names())

    def step(self) -> bool:
        """Look at the next names. False when there are none left."""
        names = 0
        for name, regexes in islice(self._matches, NAMES_PER_STEP):
            names += 1
            if regexes and self._context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
                for regex in regexes:
                    self._found[regex].add(name)
        return names == NAMES_PER_STEP

    def resolved(self) -> Mapping[str, ResolvedRegex]:
        return {
            regex: ResolvedRegex(frozenset(names), self._version, self._started_ms)
            for regex, names in self._found.items()
        }
