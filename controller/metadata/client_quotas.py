"""What a client quota may be, and which one holds for a client (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599,
KIP-612).

A quota belongs to an entity: to a user, a client id, both together, or an address; a name of None is the
default, for all that have no quota of their own. The most specific entity that has a quota of a kind decides
it, also by allowing everything, and another kind may be decided by another entity::

    (user, client id) > (user, default client id) > user
        > (default user, client id) > (default user, default client id) > default user
        > client id > default client id

A client without a client id has none of the quotas in which a client id stands, not even a default. All
clients whose quota comes from the same level share it by that level: a quota of a user is one for all his
clients together, the default of client ids is one for each client id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from controller.metadata.image.quotas import QuotaEntity, QuotasImage

__all__ = [
    "CLIENT_ID",
    "CONNECTION_RATE",
    "CONSUMER_RATE",
    "IP",
    "MUTATION_RATE",
    "NO_LIMIT",
    "PRODUCER_RATE",
    "REQUEST_PERCENTAGE",
    "USER",
    "ClientLimit",
    "ClientLimits",
    "limits_of_addresses",
]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_RATE: Final = "producer_byte_rate"
CONSUMER_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_RATE: Final = "connection_creation_rate"

NO_LIMIT: Final = math.inf

_DEFAULT: Final = None
_ABSENT: Final = ""
"""In place of a name: the entity has no part of that type. No user and no client id of a quota is empty."""

_Entity = tuple[str | None, str | None]
"""User and client id, each a name, `_DEFAULT` or `_ABSENT`."""


class ClientLimit(NamedTuple):
    """user, client_id: who shares the limit; empty where the limit is one for all of them. per_second: bytes,
    percent of a thread's time, or partitions."""

    user: str
    client_id: str
    per_second: float


class ClientLimits:
    """The quotas of one kind, by user and client id."""

    __slots__ = ("_by_entity", "_counts", "_key", "_levels", "_limiting")

    def __init__(self, image: QuotasImage, key: str) -> None:
        """key: the kind, such as `producer_byte_rate`."""
        self._key = key
        self._by_entity: dict[_Entity, float] = {}
        self._counts = dict.fromkeys(_BY_PRECEDENCE, 0)
        self._limiting = 0
        """Of the entities, those that limit anybody."""
        self._levels: list[_Entity] = []
        """Those that have quotas, in the order of precedence; none as long as nobody is limited."""
        self.follow(image, image.by_entity)

    def follow(self, image: QuotasImage, changed: Iterable[QuotaEntity]) -> None:
        """Takes over the quotas of the entities that have changed; there may be very many others."""
        for entity in changed:
            parts = dict(entity)
            if IP in parts:
                continue
            who = parts.get(USER, _ABSENT), parts.get(CLIENT_ID, _ABSENT)
            level = _kind(who[0]), _kind(who[1])
            if level not in self._counts:
                continue
            before = self._by_entity.pop(who, None)
            self._counts[level] -= before is not None
            self._limiting -= before is not None and before != NO_LIMIT
            value = image.by_entity.get(entity, {}).get(self._key)
            if value is not None:
                self._by_entity[who] = _limit(value)
                self._counts[level] += 1
                self._limiting += _limit(value) != NO_LIMIT
        self._levels = [level for level in _BY_PRECEDENCE if self._counts[level]] if self._limiting else []

    def __bool__(self) -> bool:
        return bool(self._levels)

    def of(self, user: str, client_id: str) -> ClientLimit | None:
        """The limit of a client; None if it has none."""
        for by_user, by_client in self._levels:
            entity = (
                user if by_user == _NAMED else by_user,
                client_id if by_client == _NAMED else by_client,
            )
            per_second = self._by_entity.get(entity)
            if per_second is not None and (client_id or by_client == _ABSENT) and (user or by_user != _NAMED):
                if per_second == NO_LIMIT:
                    return None
                return ClientLimit(
                    _ABSENT if by_user == _ABSENT else user,
                    _ABSENT if by_client == _ABSENT else client_id,
                    per_second,
                )
        return None


_NAMED: Final = "*"
"""In a level: the entity names the user, or the client id."""

_BY_PRECEDENCE: Final[tuple[_Entity, ...]] = (
    (_NAMED, _NAMED),
    (_NAMED, _DEFAULT),
    (_NAMED, _ABSENT),
    (_DEFAULT, _NAMED),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, _ABSENT),
    (_ABSENT, _NAMED),
    (_ABSENT, _DEFAULT),
)


def _kind(name: str | None) -> str | None:
    return _NAMED if name else name


def _limit(value: float) -> float:
    """What a stored value allows. Kafka stores NaN and infinity, and earlier releases of it stored what is
    not above 0; nobody is throttled by these, and a more general quota does not hold for him either."""
    return value if value > 0 else NO_LIMIT


def limits_of_addresses(image: QuotasImage) -> Mapping[str | None, float]:
    """The connections that may be created each second, by address as it was written; None is the default.
    They may be `NO_LIMIT`."""

    def found() -> Iterator[tuple[str | None, float]]:
        for entity, values in image.by_entity.items():
            value = values.get(CONNECTION_RATE)
            if len(entity) == 1 and entity[0][0] == IP and value is not None:
                yield entity[0][1], _limit(value)

    return dict(found())
