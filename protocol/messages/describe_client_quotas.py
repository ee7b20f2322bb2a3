"""DescribeClientQuotas (API key 48): describe quotas."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import f64, i8, i16, i32


@request(key=48, versions="0-1", flexible="1+", listeners="broker")
class DescribeClientQuotasRequest(Message):
    """Describe quotas."""

    class ComponentData(Struct):
        entity_type: str = ""
        match_type: i8 = 0
        match: str | None = ""

    components: list[ComponentData] = []
    strict: bool = False


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """Answer: describe quotas."""

    class EntryData(Struct):
        entity: list["DescribeClientQuotasResponse.EntityData"] = []
        values: list["DescribeClientQuotasResponse.ValueData"] = []

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""

    class ValueData(Struct):
        key: str = ""
        value: f64 = 0.0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = []
