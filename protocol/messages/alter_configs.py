"""AlterConfigs, API key 33. It is sent by older admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=33, versions="0-2", flexible="2+", listeners="broker controller")
class AlterConfigsRequest(Message):
    """Replaces all dynamic configs of resources. IncrementalAlterConfigs has taken its place."""

    class AlterConfigsResource(Struct):
        """Names a resource, and the configs of it that are to change."""

        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["AlterConfigsRequest.AlterableConfig"] = []

    class AlterableConfig(Struct):
        """Names a config, and says how it is to change."""

        name: str = ""
        value: str | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    """Says for each resource whether its configs were changed."""

    class AlterConfigsResourceResponse(Struct):
        """Says whether the configs of one resource were changed."""

        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
