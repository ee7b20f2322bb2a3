"""Changes to client quotas (KIP-546), by the rules and in the words of Kafka's `ClientQuotaControlManager`.

Each entity of a request is decided on its own: all its changes are made, or none and it is told why. What is
left of all entities goes into one batch, a record for each quota that gets another value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final, NamedTuple

from config.limits import METADATA_RECORDS_PER_REQUEST
from controller.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.quotas import QuotaEntity
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.metadata_log.cluster import ClientQuotaRecord
from protocol.refusals import TOO_LARGE, alter_client_quotas_refused

__all__ = ["alter_client_quotas"]

Entry = AlterClientQuotasRequest.EntryData
Answer = AlterClientQuotasResponse.EntryData

_IN_ORDER: Final = (CLIENT_ID, USER, IP)
"""The order in which Kafka shows the parts of an entity."""

_EPSILON: Final = 1e-6
"""How far from a whole number a value may be that has to be one."""


class _Whole(NamedTuple):
    """A type of quota that only has whole numbers. exclusive_end: the first one that is too large."""

    name: str
    exclusive_end: float


_LONG: Final = _Whole("a LONG", 2.0**63)
_INT: Final = _Whole("an INT", 2.0**31)

_OF_CLIENTS: Final[Mapping[str, _Whole | None]] = MappingProxyType(
    {PRODUCER_RATE: _LONG, CONSUMER_RATE: _LONG, REQUEST_PERCENTAGE: None, MUTATION_RATE: None}
)
_OF_ADDRESSES: Final[Mapping[str, _Whole | None]] = MappingProxyType({CONNECTION_RATE: _INT})


def alter_client_quotas(
    image: ClusterImage, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    """The answers come in the order of the request. An entity that is named twice is answered once, and only
    its first entry is done, as in Kafka."""
    records: list[Message] = []
    answers: dict[QuotaEntity, Answer] = {}
    for entry in request.entries:
        parts = {part.entity_type: part.entity_name for part in entry.entity}
        entity = tuple(sorted(parts.items()))
        keys = [change.key for change in entry.ops]
        try:
            if entity in answers or len(set(keys)) != len(keys):
                raise _invalid(f"Ignoring duplicate entity {_shown(parts)}")
            records += _alter(image, entity, parts, entry.ops)
        except ControllerError as fault:
            answers[entity] = _answer(parts, fault.code, fault.message)
        else:
            answers[entity] = _answer(parts, ErrorCode.NONE, None)
        if len(records) > METADATA_RECORDS_PER_REQUEST:
            return Decision((), alter_client_quotas_refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE))
    response = AlterClientQuotasResponse(entries=list(answers.values()))
    return Decision([] if request.validate_only else records, response)


def _alter(
    image: ClusterImage,
    entity: QuotaEntity,
    parts: Mapping[str, str | None],
    changes: Sequence[AlterClientQuotasRequest.OpData],
) -> list[Message]:
    known = _keys_of(parts)
    stored = image.quotas.by_entity.get(entity, {})
    records: list[Message] = []
    for change in changes:
        key = change.key
        if change.remove and key not in stored:
            continue
        if not change.remove:
            if key not in known:
                raise _invalid(f"Invalid configuration key {key}")
            _check_value(key, change.value, known[key])
            if stored.get(key) == change.value:
                continue
        record = ClientQuotaRecord(
            entity=[ClientQuotaRecord.EntityData(kind, name) for kind, name in _in_order(parts)],
            key=key,
            value=0.0 if change.remove else change.value,
            remove=change.remove,
        )
        records.append(record)
    return records


def _keys_of(parts: Mapping[str, str | None]) -> Mapping[str, _Whole | None]:
    """The quotas that such an entity may have. Raises if there is no such entity."""
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in _in_order(parts):
        if kind not in _IN_ORDER:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in parts:
        return _OF_CLIENTS
    if len(parts) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = parts[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _is_address(text: str) -> bool:
    """Whether this is an address. Kafka asks its resolver for a host name; nothing here waits for one."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(key: str, value: float, whole: _Whole | None) -> None:
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if whole is None or math.isnan(value):
        return
    if value + _EPSILON >= whole.exclusive_end:
        raise _invalid(f"Proposed value for {key} is too large for {whole.name}.")
    if abs(math.floor(value + _EPSILON) - value) > _EPSILON:
        raise _invalid(f"{key} cannot be a fractional value.")


def _in_order(parts: Mapping[str, str | None]) -> list[tuple[str, str | None]]:
    known = [kind for kind in _IN_ORDER if kind in parts]
    return [(kind, parts[kind]) for kind in [*known, *(kind for kind in parts if kind not in _IN_ORDER)]]


def _shown(parts: Mapping[str, str | None]) -> str:
    inside = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in _in_order(parts))
    return f"ClientQuotaEntity(entries={{{inside}}})"


def _invalid(sentence: str) -> ControllerError:
    return ControllerError(ErrorCode.INVALID_REQUEST, sentence)


def _answer(parts: Mapping[str, str | None], code: ErrorCode, message: str | None) -> Answer:
    named = [AlterClientQuotasResponse.EntityData(kind, name) for kind, name in _in_order(parts)]
    return Answer(code, message, named)
