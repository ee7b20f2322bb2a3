"""DescribeConfigs (32) at a controller: its own configs, the cluster's defaults, and those of topics and
groups, and the levels of its loggers.

Versions 1-4. 3 brings type and documentation. A broker resource must name this node or nobody (""); the
answers come from the committed image and this node's own file. KIP-133, KIP-226, KIP-569.

Authorization: DESCRIBE_CONFIGS on the cluster for nodes, loggers and client metrics, on the topic or group
for these.
"""

from __future__ import annotations

from controller.metadata.described_resources import ResourceDescriber
from controller.services import ControllerServices
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.serving.request_context import RequestContext
from protocol.serving.turns import Turns, in_turns


@in_turns
def handle(
    services: ControllerServices, context: RequestContext, request: DescribeConfigsRequest
) -> Turns[DescribeConfigsResponse]:
    controller = services.controller
    image = controller.image
    config = controller.rules.in_force(image.configs)
    return (yield from ResourceDescriber(config, image, services.loggers).answer(context, request))
