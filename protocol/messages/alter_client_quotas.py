"""AlterClientQuotas, API key 49. Asked by: admin.

Brokers forward it to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import f64, i16, i32


@request(key=49, versions="0-1", flexible="1+", listeners="broker controller")
class AlterClientQuotasRequest(Message):
    """Set or remove quotas (KIP-546)."""

    class EntryData(Struct):
        """One entity with its quotas."""

        entity: list["AlterClientQuotasRequest.EntityData"] = []
        ops: list["AlterClientQuotasRequest.OpData"] = []

    class EntityData(Struct):
        """One part of the entity: a user, a client id or an address; a null name is the default."""

        entity_type: str = ""
        entity_name: str | None = ""

    class OpData(Struct):
        """A quota to set or remove."""

        key: str = ""
        value: f64 = 0.0
        remove: bool = False

    entries: list[EntryData] = []
    validate_only: bool = False


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """Says for each entity whether it was changed."""

    class EntryData(Struct):
        """One entity with its quotas."""

        error_code: i16 = 0
        error_message: str | None = ""
        entity: list["AlterClientQuotasResponse.EntityData"] = []

    class EntityData(Struct):
        """One part of the entity: a user, a client id or an address; a null name is the default."""

        entity_type: str = ""
        entity_name: str | None = ""

    throttle_time_ms: i32 = 0
    entries: list[EntryData] = []
