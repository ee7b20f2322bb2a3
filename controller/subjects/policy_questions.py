"""What a policy is asked, and what it may answer.

The fields are those of Kafka's CreateTopicPolicy.RequestMetadata and AlterConfigPolicy.RequestMetadata. A
question is a value: two equal ones get the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from controller.subjects.result import ControllerError

__all__ = ["ConfigQuestion", "Judge", "PolicyQuestion", "TopicQuestion", "Verdict"]

Pairs = tuple[tuple[str, str | None], ...]
"""Configs and their values, in the order of the request."""


class TopicQuestion(msgspec.Struct, frozen=True, tag="create"):
    """May this topic be created?

    Either num_partitions and replication_factor are there, the defaults filled in, or replicas_assignments
    (brokers by partition). configs: those of the request.
    """

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: tuple[tuple[int, tuple[int, ...]], ...] | None
    configs: Pairs


class ConfigQuestion(msgspec.Struct, frozen=True, tag="alter"):
    """May these configs be set?

    resource_type: `TOPIC`, `BROKER`, `GROUP` or `CLIENT_METRICS`; resource_name is empty for the defaults of
    all brokers. configs: what the request sets, None for what it deletes. Kafka asks this for the configs of
    a new topic too, if it has any, before it asks about the topic.
    """

    resource_type: str
    resource_name: str
    configs: Pairs


PolicyQuestion = TopicQuestion | ConfigQuestion

Verdict = ControllerError | None

Judge = Callable[[PolicyQuestion], Verdict]
"""Returns the verdict of the policy on a question."""
