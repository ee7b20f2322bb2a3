"""How fast single addresses may open connections (KIP-612): `connection_creation_rate` of an address.

The rate is that of the other quotas (`broker.quotas.sampled_rate`). A connection that comes too fast is not
served, and counts for nothing: as in Kafka it is closed when the address may open one again, but a window
later at the latest, so that a client that tries again at once is slowed down by that.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.quotas.rate_quota import RateQuota
from controller.metadata.client_quotas import NO_LIMIT, ClientLimit
from protocol.serving.session import is_address, plain_host

__all__ = ["AddressRates"]


class AddressRates:
    """limits: connections a second, by address as it was written; that of None holds for all others, and
    `NO_LIMIT` lets an address open as many as it wants.

    Times are monotonic milliseconds. Addresses that ask are written as `plain_host` writes them.
    """

    def __init__(self, *, window_ms: int, windows: int) -> None:
        """window_ms, windows: `quota.window.size.seconds` and `quota.window.num`."""
        self._default: float | None = None
        self._limits: dict[str, float] = {}
        self._opened = RateQuota(window_ms=window_ms, windows=windows, longest_ms=window_ms)

    def follow(self, limits: Mapping[str | None, float]) -> None:
        """Takes over the limits of the cluster; those of host names, which Kafka may have stored, limit
        nobody."""
        self._default = limits.get(None)
        self._limits = {
            plain_host(written): per_second
            for written, per_second in limits.items()
            if written is not None and is_address(written)
        }

    def __bool__(self) -> bool:
        return any(limit not in (None, NO_LIMIT) for limit in (self._default, *self._limits.values()))

    def throttle_ms(self, address: str, now_ms: int) -> int:
        """Counts a connection of the address; or, if it comes too fast, returns after how many milliseconds
        it is closed."""
        per_second = self._limits.get(address, self._default)
        if per_second is None or per_second == NO_LIMIT:
            return 0
        return self._opened.refuse(ClientLimit(address, "", per_second), 1, now_ms)
