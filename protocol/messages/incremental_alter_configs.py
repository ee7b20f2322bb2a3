"""IncrementalAlterConfigs, API key 44. Asked by: admin.

Brokers forward it to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=44, versions="0-1", flexible="1+", listeners="broker controller")
class IncrementalAlterConfigsRequest(Message):
    """Set, delete, append to or subtract from single configs (KIP-339)."""

    class AlterConfigsResource(Struct):
        """A resource and its configs."""

        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["IncrementalAlterConfigsRequest.AlterableConfig"] = []

    class AlterableConfig(Struct):
        """A config, and the change that is wanted."""

        name: str = ""
        config_operation: i8 = 0
        value: str | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    """Says for each resource whether it was changed."""

    class AlterConfigsResourceResponse(Struct):
        """Says whether one resource was changed."""

        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
