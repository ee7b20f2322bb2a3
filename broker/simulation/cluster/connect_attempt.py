"""A connection between two machines while it is being made, as whoever connects sees it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.network.interfaces import Channel
from broker.simulation.cluster.event_loop import HostTimers

if TYPE_CHECKING:
    from broker.simulation.cluster.memory_network import MemoryChannel


class Attempt:
    """A connection that is being made: `broker.network.interfaces.ConnectAttempt`."""

    def __init__(
        self,
        channel: MemoryChannel,
        port: int,
        timers: HostTimers,
        done: Callable[[Channel | OSError], None],
    ) -> None:
        """channel: the end of whoever connects. port: of its machine. timers: of its life."""
        self.channel = channel
        self.port = port
        self._timers = timers
        self._done: Callable[[Channel | OSError], None] | None = done

    @property
    def is_over(self) -> bool:
        return self._done is None

    def cancel(self) -> None:
        self._done = None
        self.channel.open = False

    def succeed(self) -> None:
        if self.is_over:
            self.channel.send_reset()
        elif self.channel.open:
            self._timers.enter(partial(self._end, self.channel))
        else:
            self.fail(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def fail(self, error: OSError) -> None:
        self._timers.enter(partial(self._end, error))

    def expire(self) -> None:
        """In a turn of whoever connects."""
        self._end(OSError("no answer in time"))

    def _end(self, outcome: Channel | OSError) -> None:
        done, self._done = self._done, None
        if done is not None:
            if isinstance(outcome, OSError):
                self.channel.open = False
            done(outcome)
