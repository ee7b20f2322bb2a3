"""AlterClientQuotas (API key 49): alter quotas."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import f64, i16, i32


@request(key=49, versions="0-1", flexible="1+", listeners="broker controller")
class AlterClientQuotasRequest(Message):
    """Alter quotas."""

    class EntryData(Struct):
        entity: list["AlterClientQuotasRequest.EntityData"] = []
        ops: list["AlterClientQuotasRequest.OpData"] = []

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""

    class OpData(Struct):
        key: str = ""
        value: f64 = 0.0
        remove: bool = False

    entries: list[EntryData] = []
    validate_only: bool = False


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """Answer: alter quotas."""

    class EntryData(Struct):
        error_code: i16 = 0
        error_message: str | None = ""
        entity: list["AlterClientQuotasResponse.EntityData"] = []

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""

    throttle_time_ms: i32 = 0
    entries: list[EntryData] = []
