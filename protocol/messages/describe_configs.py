"""DescribeConfigs, API key 32. It is sent by admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=32, versions="1-4", flexible="4+", listeners="broker controller")
class DescribeConfigsRequest(Message):
    """Asks for the configs of topics, brokers, loggers, groups and client metrics.

    From version 1 on it can ask for synonyms (KIP-226), and from version 3 on for documentation.
    """

    class DescribeConfigsResource(Struct):
        """Names a resource and the configs of it that are asked for. Null means all configs."""

        resource_type: i8 = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = []

    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Since(3)] = False


@response(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    """Tells the values of the configs, and where they come from."""

    class DescribeConfigsResult(Struct):
        """Lists the configs of one resource, or says why they cannot be described."""

        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["DescribeConfigsResponse.DescribeConfigsResourceResult"] = []

    class DescribeConfigsResourceResult(Struct):
        """Describes one config and its value."""

        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: i8 = -1
        is_sensitive: bool = False
        synonyms: list["DescribeConfigsResponse.DescribeConfigsSynonym"] = []
        config_type: Annotated[i8, Since(3), Ignorable] = 0
        documentation: Annotated[str | None, Since(3), Ignorable] = ""

    class DescribeConfigsSynonym(Struct):
        """Names another config, or another source of this one, from which the value can come."""

        name: str = ""
        value: str | None = ""
        source: i8 = 0

    throttle_time_ms: i32 = 0
    results: list[DescribeConfigsResult] = []
