"""IncrementalAlterConfigs, API key 44. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=44, versions="0-1", flexible="1+", listeners="broker controller")
class IncrementalAlterConfigsRequest(Message):
    """Sets or deletes single configs, or appends to or subtracts from lists (KIP-339)."""

    class AlterConfigsResource(Struct):
        """Names a resource, and the configs of it that are to change."""

        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["IncrementalAlterConfigsRequest.AlterableConfig"] = []

    class AlterableConfig(Struct):
        """Names a config, and says how it is to change."""

        name: str = ""
        config_operation: i8 = 0
        value: str | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    """Says for each resource whether its configs were changed."""

    class AlterConfigsResourceResponse(Struct):
        """Says whether the configs of one resource were changed."""

        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
