"""AlterConfigs, API key 33. Asked by: old admin clients.

Brokers forward it to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=33, versions="0-2", flexible="2+", listeners="broker controller")
class AlterConfigsRequest(Message):
    """Replace all dynamic configs of resources; the older way."""

    class AlterConfigsResource(Struct):
        """A resource and its configs."""

        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["AlterConfigsRequest.AlterableConfig"] = []

    class AlterableConfig(Struct):
        """A config, and the change that is wanted."""

        name: str = ""
        value: str | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    """Says for each resource whether it was changed."""

    class AlterConfigsResourceResponse(Struct):
        """Says whether one resource was changed."""

        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
