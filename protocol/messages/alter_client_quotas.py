"""AlterClientQuotas, API key 49. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import f64, i16, i32


@request(key=49, versions="0-1", flexible="1+", listeners="broker controller")
class AlterClientQuotasRequest(Message):
    """Sets or removes client quotas (KIP-546)."""

    class EntryData(Struct):
        """Names an entity, and the quotas of it that are to change."""

        entity: list["AlterClientQuotasRequest.EntityData"] = []
        ops: list["AlterClientQuotasRequest.OpData"] = []

    class EntityData(Struct):
        """Names one part of the entity: a user, a client id or an address. A null name means the default."""

        entity_type: str = ""
        entity_name: str | None = ""

    class OpData(Struct):
        """Names a quota, and says whether it is set or removed."""

        key: str = ""
        value: f64 = 0.0
        remove: bool = False

    entries: list[EntryData] = []
    validate_only: bool = False


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    """Says for each entity whether its quotas were changed."""

    class EntryData(Struct):
        """Says whether the quotas of one entity were changed."""

        error_code: i16 = 0
        error_message: str | None = ""
        entity: list["AlterClientQuotasResponse.EntityData"] = []

    class EntityData(Struct):
        """Names one part of the entity: a user, a client id or an address. A null name means the default."""

        entity_type: str = ""
        entity_name: str | None = ""

    throttle_time_ms: i32 = 0
    entries: list[EntryData] = []
