"""DescribeConfigs, API key 32. Asked by: admin."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=32, versions="1-4", flexible="4+", listeners="broker controller")
class DescribeConfigsRequest(Message):
    """Configs of topics, brokers, loggers, groups and client metrics.

    From version 1 with synonyms (KIP-226), 3 with documentation.
    """

    class DescribeConfigsResource(Struct):
        """A resource, and which of its configs; null is all."""

        resource_type: i8 = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = []

    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Since(3)] = False


@response(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    """Config values, where they come from, and what they are."""

    class DescribeConfigsResult(Struct):
        """The result for one resource."""

        error_code: i16 = 0
        error_message: str | None = ""
        resource_type: i8 = 0
        resource_name: str = ""
        configs: list["DescribeConfigsResponse.DescribeConfigsResourceResult"] = []

    class DescribeConfigsResourceResult(Struct):
        """One config, with its value and what describes it."""

        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: i8 = -1
        is_sensitive: bool = False
        synonyms: list["DescribeConfigsResponse.DescribeConfigsSynonym"] = []
        config_type: Annotated[i8, Since(3), Ignorable] = 0
        documentation: Annotated[str | None, Since(3), Ignorable] = ""

    class DescribeConfigsSynonym(Struct):
        """A config of another name or place from which the value may come."""

        name: str = ""
        value: str | None = ""
        source: i8 = 0

    throttle_time_ms: i32 = 0
    results: list[DescribeConfigsResult] = []
