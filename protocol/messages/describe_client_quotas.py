"""DescribeClientQuotas, API key 48. Asked by: admin."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import f64, i8, i16, i32


@request(key=48, versions="0-1", flexible="1+", listeners="broker")
class DescribeClientQuotasRequest(Message):
    """The quotas of users, client ids and addresses that match a filter (KIP-546)."""

    class ComponentData(Struct):
        """One condition of the filter."""

        entity_type: str = ""
        match_type: i8 = 0
        match: str | None = ""

    components: list[ComponentData] = []
    strict: bool = False


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """Entities with their quotas."""

    class EntryData(Struct):
        """One entity with its quotas."""

        entity: list["DescribeClientQuotasResponse.EntityData"] = []
        values: list["DescribeClientQuotasResponse.ValueData"] = []

    class EntityData(Struct):
        """One part of the entity: a user, a client id or an address; a null name is the default."""

        entity_type: str = ""
        entity_name: str | None = ""

    class ValueData(Struct):
        """One quota and its value."""

        key: str = ""
        value: f64 = 0.0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = []
