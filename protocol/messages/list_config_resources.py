"""ListConfigResources, API key 74. It is sent by admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=74, versions="0-1", flexible="0+", listeners="broker")
class ListConfigResourcesRequest(Message):
    """Asks which resources have configs. Version 0 is about client metrics, later ones about any type
    (KIP-1142)."""

    resource_types: Annotated[list[i8], Since(1)] = []


@response(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    """Lists the names and types of the resources that have configs."""

    class ConfigResource(Struct):
        """Names a resource that has configs."""

        resource_name: str = ""
        resource_type: Annotated[i8, Since(1), Ignorable] = 16

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    config_resources: list[ConfigResource] = []
