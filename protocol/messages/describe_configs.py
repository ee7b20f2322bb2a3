"""DescribeConfigs (API key 32): describe configs."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=32, versions="1-4", flexible="4+", listeners="broker controller")
class DescribeConfigsRequest(Message):
    """Describe configs."""

    class DescribeConfigsResource(Struct):
        resource_type: i8 = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = []

    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Since(3)] = False


@response(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    """Answer: describe configs."""

    class DescribeConfigsResult(Struct):
        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["DescribeConfigsResponse.DescribeConfigsResourceResult"] = []

    class DescribeConfigsResourceResult(Struct):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: i8 = -1
        is_sensitive: bool = False
        synonyms: list["DescribeConfigsResponse.DescribeConfigsSynonym"] = []
        config_type: Annotated[i8, Since(3), Ignorable] = 0
        documentation: Annotated[str | None, Since(3), Ignorable] = ""

    class DescribeConfigsSynonym(Struct):
        name: str = ""
        value: str | None = ""
        source: i8 = 0

    throttle_time_ms: i32 = 0
    results: list[DescribeConfigsResult] = []
