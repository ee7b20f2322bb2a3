"""An operator's own rules on topics and configs: what they are asked, what they answer, and the port to them.

A broker runs the rules in a process of their own (`broker.policies`), the controller asks them
(`controller.policies`). The fields of a question are those of Kafka's CreateTopicPolicy.RequestMetadata and
AlterConfigPolicy.RequestMetadata. A question is a value: two equal ones get the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from protocol.errors import ErrorCode

__all__ = [
    "ConfigQuestion",
    "Judge",
    "Policies",
    "PolicyQuestion",
    "PolicyRefusal",
    "TopicQuestion",
    "Verdict",
]

Pairs = tuple[tuple[str, str | None], ...]
"""Configs and their values, in the order of the request."""


class TopicQuestion(msgspec.Struct, frozen=True, tag="create"):
    """Asks whether this topic may be created.

    Either num_partitions and replication_factor are set, the defaults filled in, or replicas_assignments
    (brokers by partition). configs: those of the request.
    """

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: tuple[tuple[int, tuple[int, ...]], ...] | None
    configs: Pairs


class ConfigQuestion(msgspec.Struct, frozen=True, tag="alter"):
    """Asks whether these configs may be set.

    resource_type: `TOPIC`, `BROKER`, `GROUP` or `CLIENT_METRICS`; resource_name is empty for the defaults of
    all brokers. configs: what the request sets, None for what it deletes. Kafka asks this for the configs of
    a new topic too, if it has any, before it asks about the topic.
    """

    resource_type: str
    resource_name: str
    configs: Pairs


PolicyQuestion = TopicQuestion | ConfigQuestion


class PolicyRefusal(NamedTuple):
    """The error that the client gets: POLICY_VIOLATION with the policy's own text, or UNKNOWN_SERVER_ERROR
    without a text if the policy has failed."""

    code: ErrorCode
    message: str


Verdict = PolicyRefusal | None

Judge = Callable[[PolicyQuestion], Verdict]
"""Returns the verdict of the policy on a question."""


class Policies(Protocol):
    """The policies in force. Both flags are false, and nothing is asked, if no policy is configured."""

    @property
    def judges_topics(self) -> bool: ...

    @property
    def judges_configs(self) -> bool: ...

    def judge(
        self, questions: Sequence[PolicyQuestion], on_verdicts: Callable[[Sequence[Verdict]], None]
    ) -> None:
        """Calls back once, later, with a verdict for each question; None where the policy allows it."""
        ...
