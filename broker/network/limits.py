"""How many connections there may be: in all, per listener, per address.

As in Kafka the two kinds of limit act differently. Beyond `max.connections` nobody is refused: accepting
rests until a connection ends, and the kernel's backlog holds who comes. Beyond `max.connections.per.ip` the
new connection is closed at once, because waiting would let one address stop all others.

The listener between brokers is exempt from the limit of all (but not from its own): a full broker must still
replicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

UNLIMITED: Final = 2**31 - 1


class ConnectionLimits:
    """The limits may be changed at any time; what is open already stays open.

    Addresses are written as `broker.network.acceptor.plain_host` writes them.
    """

    def __init__(
        self,
        *,
        maximum: int = UNLIMITED,
        maximum_per_ip: int = UNLIMITED,
        per_ip_overrides: Mapping[str, int] | None = None,
        per_listener: Mapping[str, int] | None = None,
        exempt_listener: str | None = None,
    ) -> None:
        self.maximum = maximum
        self.maximum_per_ip = maximum_per_ip
        self.per_ip_overrides = dict(per_ip_overrides or {})
        self.per_listener = dict(per_listener or {})
        self.exempt_listener = exempt_listener
        self.count = 0
        self._by_listener: dict[str, int] = {}
        self._by_host: dict[str, int] = {}
        self._waiting: dict[Callable[[], None], None] = {}

    def change(
        self,
        *,
        maximum: int,
        maximum_per_ip: int,
        per_ip_overrides: Mapping[str, int],
        per_listener: Mapping[str, int],
        exempt_listener: str | None,
    ) -> None:
        """New limits; who waits for room looks again at once."""
        self.maximum = maximum
        self.maximum_per_ip = maximum_per_ip
        self.per_ip_overrides = dict(per_ip_overrides)
        self.per_listener = dict(per_listener)
        self.exempt_listener = exempt_listener
        self._wake()

    def has_room(self, listener: str) -> bool:
        """Whether the listener may accept one more."""
        if self._by_listener.get(listener, 0) >= self.per_listener.get(listener, UNLIMITED):
            return False
        return self.count < self.maximum or listener == self.exempt_listener

    def refusal(self, host: str) -> str | None:
        """Why an accepted connection of this address must be closed; None if it may stay."""
        limit = self.per_ip_overrides.get(host, self.maximum_per_ip)
        if self._by_host.get(host, 0) >= limit:
            return f"{host} has {limit} connections already (max.connections.per.ip)"
        return None

    def opened(self, listener: str, host: str) -> None:
        self.count += 1
        self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
        self._by_host[host] = self._by_host.get(host, 0) + 1

    def closed(self, listener: str, host: str) -> None:
        self.count -= 1
        self._by_listener[listener] -= 1
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()

    def when_room(self, callback: Callable[[], None]) -> None:
        """Calls back once, when a connection has ended; whoever waits asks `has_room` again."""
        self._waiting[callback] = None
