"""Limits on connections: how many there may be in all, per listener and per address, and how fast they may
come.

As in Kafka the two kinds of limit act differently. Beyond `max.connections` no connection is refused: the
listener stops accepting until a connection ends, and new ones wait in the kernel's backlog; where there are
more nevertheless, `Server.close_excess` closes some. Beyond `max.connections.per.ip` the new connection is
closed at once, because waiting would let one address stop all others. One that comes faster than its address
may open connections is held for a moment and closed then (`broker.quotas.address_rates`).

The inter-broker listener is exempt from the limits of the whole broker (but not from its own): a full broker
must still replicate. Its connections count among those that are open, but take nothing of the broker's rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.network.creation_rate import CreationRate
from broker.quotas.address_rates import AddressRates

UNLIMITED: Final = 2**31 - 1


class ConnectionLimits:
    """Counts the open connections and knows their limits. The limits may be changed at any time.

    Addresses are written as `plain_host` writes them.
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
        self._rate: CreationRate | None = None
        self._rates: dict[str, CreationRate] = {}
        self.address_rates: AddressRates | None = None
        """How fast single addresses may open connections, where any of them has a limit."""

    def change(
        self,
        *,
        maximum: int,
        maximum_per_ip: int,
        per_ip_overrides: Mapping[str, int],
        per_listener: Mapping[str, int],
        exempt_listener: str | None,
        creation_rate: int = UNLIMITED,
        creation_rate_per_listener: Mapping[str, int] | None = None,
    ) -> None:
        """Sets new limits; listeners that wait for room check again at once. A rate that does not change
        keeps its state."""
        self.maximum = maximum
        self.maximum_per_ip = maximum_per_ip
        self.per_ip_overrides = dict(per_ip_overrides)
        self.per_listener = dict(per_listener)
        self.exempt_listener = exempt_listener
        self._rate = _rate(self._rate, creation_rate)
        per_listener_rate = creation_rate_per_listener or {}
        rates = {name: _rate(self._rates.get(name), rate) for name, rate in per_listener_rate.items()}
        self._rates = {name: rate for name, rate in rates.items() if rate is not None}
        self._wake()

    def pause_ms(self, listener: str, now_ms: int) -> int:
        """The milliseconds for which the listener must not accept because of a creation rate; 0 as a rule."""
        pause_ms = 0
        if self._rate is not None and listener != self.exempt_listener:
            pause_ms = self._rate.pause_ms(now_ms)
        own = self._rates.get(listener)
        return pause_ms if own is None else max(pause_ms, own.pause_ms(now_ms))

    def record(self, listener: str, now_ms: int) -> None:
        """Counts a connection that the listener accepted against the creation rates. One that its address has
        opened too fast (`throttle_ms`) takes nothing of them. Ask `refusal` whether it may stay."""
        if self._rate is not None and listener != self.exempt_listener:
            self._rate.record(now_ms)
        if listener in self._rates:
            self._rates[listener].record(now_ms)

    @property
    def excess(self) -> int:
        """How many connections there are beyond the maximum; at most 0 as a rule."""
        return self.count - self.maximum

    def has_room(self, listener: str) -> bool:
        """Whether the listener may accept one more connection."""
        if self._by_listener.get(listener, 0) >= self.per_listener.get(listener, UNLIMITED):
            return False
        return self.count < self.maximum or listener == self.exempt_listener

    def refusal(self, host: str) -> str | None:
        """The reason for which an accepted connection from this address must be closed; None if it may
        stay."""
        limit = self.per_ip_overrides.get(host, self.maximum_per_ip)
        if self._by_host.get(host, 0) >= limit:
            return f"{host} has {limit} connections already (max.connections.per.ip)"
        return None

    def throttle_ms(self, host: str, now_ms: int) -> int:
        """After how many milliseconds a connection that was accepted from this address is closed, because the
        address opens them too fast; 0 if it may stay."""
        return 0 if self.address_rates is None else self.address_rates.throttle_ms(host, now_ms)

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
        """Calls `callback` once, when a connection has ended. There may be no room again by then, so it asks
        `has_room`."""
        self._waiting[callback] = None


def _rate(before: CreationRate | None, per_second: int) -> CreationRate | None:
    """The limiter for `per_second`: the one from before if the rate is the same; None where there is no
    limit."""
    if before is not None and before.per_second == per_second:
        return before
    return None if per_second == UNLIMITED else CreationRate(per_second)
