"""AlterConfigs (API key 33): replace configs (legacy, non incremental)."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=33, versions="0-2", flexible="2+", listeners="broker controller")
class AlterConfigsRequest(Message):
    """Replace configs (legacy, non incremental)."""

    class AlterConfigsResource(Struct):
        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["AlterConfigsRequest.AlterableConfig"] = []

    class AlterableConfig(Struct):
        name: str = ""
        value: str | None = ""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    """Answer: replace configs (legacy, non incremental)."""

    class AlterConfigsResourceResponse(Struct):
        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
