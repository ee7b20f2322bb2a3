"""IncrementalAlterConfigs (API key 44): incremental config changes."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=44, versions="0-1", flexible="1+", listeners="broker controller")
class IncrementalAlterConfigsRequest(Message):
    """Incremental config changes."""

    class AlterConfigsResource(Struct):
        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["IncrementalAlterConfigsRequest.AlterableConfig"] = []

    class AlterableConfig(Struct):
        name: str = ""
        config_operation: i8 = 0
        value: str | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    """Answer: incremental config changes."""

    class AlterConfigsResourceResponse(Struct):
        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
