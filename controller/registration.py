"""Registers a controller that is not the active one with the active one (KIP-919), so that tools and brokers
find it.

While the committed metadata does not hold the registration of this controller since its start, it sends
ControllerRegistration to the active controller, and repeats that after a pause. The active controller writes
its own registration by itself.

It has a channel of its own: the answer waits for a commit, and commits wait for this node's fetches, which
must not queue up behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from config.ports import Clock, Timers
from controller.quorum_controller import QuorumController
from controller.raft.identity import Address
from controller.raft.peers import ClosablePeerChannel
from protocol.codec.message import Message
from protocol.peer_channel import PeerError

__all__ = ["FollowerRegistration"]

FIRST_PAUSE_MS: Final = 100
LONGEST_PAUSE_MS: Final = 5_000
TIMEOUT_MS: Final = 5_000


class FollowerRegistration:
    """Call `start` once, after that of the controller. leader: returns the address of the active controller
    if it is known."""

    def __init__(
        self,
        controller: QuorumController,
        leader: Callable[[], Address | None],
        make_channel: Callable[[str, int], ClosablePeerChannel],
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._controller = controller
        self._leader = leader
        self._make_channel = make_channel
        self._clock = clock
        self._timers = timers
        self._channel: ClosablePeerChannel | None = None
        self._address: Address | None = None
        self._is_waiting = False
        self._pause_ms = FIRST_PAUSE_MS
        self._is_stopped = False

    def start(self) -> None:
        self._controller.on_image(lambda _image, _delta: self._look())
        self._look()

    def stop(self) -> None:
        self._is_stopped = True
        if self._channel is not None:
            self._channel.close_channel()

    def _look(self) -> None:
        """Sends the registration, if that is needed and no request is under way."""
        if self._is_waiting or self._is_stopped or not self._controller.must_be_registered:
            return
        address = self._leader()
        self._is_waiting = True
        if address is None:
            self._pause()
            return
        if address != self._address or self._channel is None:
            if self._channel is not None:
                self._channel.close_channel()
            self._channel, self._address = self._make_channel(*address), address
        self._channel.send(self._controller.registration(), self._answered, timeout_ms=TIMEOUT_MS)

    def _answered(self, _response: Message | PeerError) -> None:
        """Waits before the next attempt. Whether the registration was written is seen in the metadata,
        whatever the answer says."""
        self._pause()

    def _pause(self) -> None:
        self._timers.call_at(self._clock.monotonic_ms() + self._pause_ms, self._look_again)
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)

    def _look_again(self) -> None:
        self._is_waiting = False
        if not self._controller.must_be_registered:
            self._pause_ms = FIRST_PAUSE_MS
        self._look()
