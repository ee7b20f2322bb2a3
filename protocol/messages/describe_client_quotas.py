"""DescribeClientQuotas, API key 48. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import f64, i8, i16, i32


@request(key=48, versions="0-1", flexible="1+", listeners="broker")
class DescribeClientQuotasRequest(Message):
    """Asks for the quotas of the users, client ids and addresses that match a filter (KIP-546)."""

    class ComponentData(Struct):
        """Holds one condition of the filter."""

        entity_type: str = ""
        match_type: i8 = 0
        match: str | None = ""

    components: list[ComponentData] = []
    strict: bool = False


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """Lists the entities that match, with their quotas."""

    class EntryData(Struct):
        """Names an entity, and lists its quotas."""

        entity: list["DescribeClientQuotasResponse.EntityData"] = []
        values: list["DescribeClientQuotasResponse.ValueData"] = []

    class EntityData(Struct):
        """Names one part of the entity: a user, a client id or an address. A null name means the default."""

        entity_type: str = ""
        entity_name: str | None = ""

    class ValueData(Struct):
        """Holds the value of one quota."""

        key: str = ""
        value: f64 = 0.0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = []
