"""What a client quota may be, and which one holds for a client (KIP-13, KIP-55, KIP-124, KIP-546, KIP-599,
KIP-612).

A quota belongs to an entity: to a user, a client id, both together, or an address; a name of None is the
default, for all that have no quota of their own. The most specific entity that has a quota of a kind decides
it, and another kind may be decided by another entity::

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

    __slots__ = ("_by_entity", "_counts", "_key", "_levels")

    def __init__(self, image: QuotasImage, key: str) -> None:
        """key: the kind, such as `producer_byte_rate`."""
        self._key = key
        self._by_entity: dict[_Entity, float] = {}
        self._counts = dict.fromkeys(_BY_PRECEDENCE, 0)
        self._levels: list[_Entity] = []
        """Those that have quotas, in the order of precedence."""
        self.follow(image, image.by_entity)

    def follow(self, image: QuotasImage, changed: Iterable[QuotaEntity]) -> None:
        """Takes over the quotas of the entities that have changed; there may be very many others."""
        for entity in changed:
            parts = dict(entity)
            if IP in parts:
                continue
            who = parts.get(USER, _ABSENT), parts.get(CLIENT_ID, _ABSENT)
            level = _kind(who[0]), _kind(who[1])
            value = image.by_entity.get(entity, {}).get(self._key)
            if level not in self._counts:
                continue
            self._counts[level] -= self._by_entity.pop(who, None) is not None
            if value is not None and _is_limit(value):
                self._by_entity[who] = value
                self._counts[level] += 1
        self._levels = [level for level in _BY_PRECEDENCE if self._counts[level]]

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


def _is_limit(value: float) -> bool:
    """Whether the stored value limits anything. Kafka stores NaN and infinity, and earlier releases of it
    stored what is not above 0, by which nobody was throttled."""
    return math.isfinite(value) and value > 0


def limits_of_addresses(image: QuotasImage) -> Mapping[str | None, float]:
    """The connections that may be created each second, by address as it was written; None is the default."""

    def found() -> Iterator[tuple[str | None, float]]:
        for entity, values in image.by_entity.items():
            value = values.get(CONNECTION_RATE)
            if len(entity) == 1 and entity[0][0] == IP and value is not None and _is_limit(value):
                yield entity[0][1], value

    return dict(found())
