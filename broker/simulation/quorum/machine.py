"""A simulated host with one replica, without what the replica runs on: its names, its clock, its lives.

A life is one run of the process; what is on the disk, the clock and the name outlive it. The clock runs at
its own rate, in per mille of the world's. What the process of a life is made of, the subclasses say: a model
of the driver on a model of a disk (`model_machine`), or the driver and the disk code that the product runs
(`driver_machine`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.simulation.quorum.library import EMPTY_CHAIN
from broker.simulation.quorum.network import Token
from broker.simulation.quorum.observed_log import ObservedLog
from controller.raft.config import RaftConfig
from controller.raft.effects import Ready
from controller.raft.identity import ReplicaKey
from controller.raft.node import RaftNode
from protocol.codec.message import Message
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.simulation.quorum.world import World

__all__ = ["LARGEST_RINGS", "Input", "Machine"]

LARGEST_RINGS: Final = 50
"""So often at most may a replica ask to be called at one and the same moment."""
Input = Callable[[RaftNode, int], Ready | None]
"""What happens to the node, given its own time; None if nothing came of it."""


class Machine:
    """`number` counts the machines of a world from 0; the replica's id is one more."""

    disk: ObservedLog
    """What its log holds as the rules see it."""

    def __init__(self, world: World, number: int, config: RaftConfig) -> None:
        self.world = world
        self.number = number
        self.config = config
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.crash_after = -1
        """So many more effects, then the power fails; -1: it does not."""
        self.random_bits = 0
        """What survives of unsynced bytes when it does."""
        self.epoch_before = 0
        """The epoch on the disk before the Ready that is being executed."""
        self.applied_end = 0
        """Up to here the state machine has what is committed; `applied_chain` is its state."""
        self.applied_chain = EMPTY_CHAIN
        self._clock_base = 0
        self._clock_ms_base = 1_000 * (number + 1)
        self._rate = 1_000

    # Names

    @property
    def id(self) -> int:
        return self.config.node.id

    @property
    def key(self) -> ReplicaKey:
        return self.config.node

    @property
    def node(self) -> RaftNode:
        """Raises RuntimeError while the machine is down."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"n{self.id}"

    # The clock

    def now_ms(self) -> int:
        return self._clock_ms_base + (self.world.now - self._clock_base) * self._rate // 1_000_000

    def set_rate(self, per_mille: int) -> None:
        """From now on the clock runs so fast; it does not jump."""
        now_ms = self.now_ms()
        self._clock_base, self._clock_ms_base, self._rate = self.world.now, now_ms, per_mille
        if self.is_up:
            self.clock_changed()

    def clock_changed(self) -> None:
        """What waits for a moment of this clock waits anew."""
        raise NotImplementedError

    def delay_until(self, deadline_ms: int) -> int:
        """In how many of the world's microseconds this clock shows deadline_ms; 0 if it has passed."""
        wanted_us = (deadline_ms - self._clock_ms_base) * 1_000_000
        return max(self._clock_base - (-wanted_us // self._rate) - self.world.now, 0)

    def put_forward(self, milliseconds: int) -> None:
        """This clock alone."""
        self._clock_ms_base += milliseconds

    # Lives

    def start(self) -> None:
        """A new process on this disk."""
        raise NotImplementedError

    def crash(self) -> None:
        """The power fails."""
        raise NotImplementedError

    def pause(self) -> None:
        """The process stands still; what comes for it waits."""
        self.is_paused = True

    def resume(self) -> None:
        raise NotImplementedError

    def lose_disk(self, config: RaftConfig) -> None:
        """A machine that is down gets an empty disk, and is another replica from now on."""
        raise NotImplementedError

    # Inputs

    def request_arrived(self, token: Token) -> None:
        raise NotImplementedError

    def response_arrived(self, token: Token, message: Message) -> None:
        raise NotImplementedError

    def request_failed(self, token: Token, error: ErrorCode) -> None:
        raise NotImplementedError

    # What clients and operators ask of it

    def append(self, number: int, *, is_news: bool) -> None:
        """A client's append, if the replica leads. number: which of the payloads."""
        raise NotImplementedError

    def resign(self) -> None:
        """Leads no more, if it does."""
        raise NotImplementedError

    def upgrade_kraft_version(self) -> None:
        """To kraft.version 1, if the replica leads and may."""
        raise NotImplementedError

    def shut_down(self, timeout_ms: int) -> None:
        """A clean end of the process."""
        raise NotImplementedError

    def take_snapshot(self, back: int) -> bool:
        """Keeps the state as it was `back` committed batches ago. Says whether there is anything to keep."""
        raise NotImplementedError

    def trim(self) -> bool:
        """The log before the newest snapshot is not kept any longer. Says whether anything goes."""
        raise NotImplementedError
