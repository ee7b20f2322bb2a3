"""DescribeConfigs (32): the configuration in force, where each value comes from, and what it does. KIP-133,
KIP-226.

Versions 1-4. 1: synonyms and the source of a value; 2: throttled after the answer; 3: types and
documentation; 4: flexible.

Resources: topics (2), brokers (4), brokers' loggers (8), client metrics subscriptions (16), groups (32). A
broker answers for itself and, under the empty name, for the dynamic defaults of all brokers; asked for
another broker it refuses, since it does not know that one's file. Values of secrets are null.

Needs DESCRIBE_CONFIGS on the topic or group, on the cluster for all else. The loggers are this process's own,
by the names in its log, with the level in force; `root` stands above all.
"""

from __future__ import annotations

from typing import Protocol

from broker.services import HasConfig, HasLoggers, HasMetadata
from controller.metadata.described_resources import ResourceDescriber
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


class DescribeConfigsServices(HasConfig, HasMetadata, HasLoggers, Protocol):
    """What this handler needs of the broker's services."""


@in_turns
def handle(
    services: DescribeConfigsServices, context: RequestContext, request: DescribeConfigsRequest
) -> Turns[DescribeConfigsResponse]:
    describer = ResourceDescriber(services.config, services.metadata.image, services.loggers)
    return (yield from describer.answer(context, request))
