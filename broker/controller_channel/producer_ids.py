"""Producer ids for idempotent producers, out of blocks that the controller gives (KIP-730).

A producer id is never given twice in a cluster's life. Brokers take a thousand at a time; the next block is
asked for when nine tenths of the current one are gone, so that hardly any producer waits for the
controller. Ids that are left when the broker stops are lost, and there are enough of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.controller_channel.forwarding import ControllerChannel
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.peer_channel import PeerError

PREFETCH_FRACTION: Final = 0.9
WAITERS_MAX: Final = 10_000
"""Producers that may wait for a block together; the next is told that the coordinator is loading."""

Grant = Callable[[int, ErrorCode], None]
"""Gets a producer id and NONE, or -1 and an error that lets the producer try again."""


class Block(NamedTuple):
    first: int
    size: int

    @property
    def end(self) -> int:
        return self.first + self.size


class ProducerIds:
    """The block in use, the block after it, and who waits for one."""

    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        channel: ControllerChannel,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._next = 0
        self._end = 0
        self._prefetch_at = 0
        self._following: Block | None = None
        self._asking = False
        self._waiting: deque[Grant] = deque()

    def allocate(self, grant: Grant) -> None:
        """Give `grant` an id: at once if there is one, otherwise when the controller has given a block."""
        if self._next >= self._end and not self._take_following():
            if len(self._waiting) >= WAITERS_MAX:
                grant(-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                return
            self._waiting.append(grant)
            self._ask()
            return
        producer_id = self._next
        self._next += 1
        if self._next >= self._prefetch_at:
            self._ask()
        grant(producer_id, ErrorCode.NONE)

    def _take_following(self) -> bool:
        block, self._following = self._following, None
        if block is None:
            return False
        self._next, self._end = block.first, block.end
        self._prefetch_at = block.first + int(block.size * PREFETCH_FRACTION)
        return True

    def _ask(self) -> None:
        if self._asking or self._following is not None:
            return
        self._asking = True
        self._channel.send(AllocateProducerIdsRequest(self._node_id, self._broker_epoch()), self._answered)

    def _answered(self, response: Message | PeerError) -> None:
        self._asking = False
        if not isinstance(response, AllocateProducerIdsResponse) or response.error_code:
            self._refuse_waiting()
            return
        if response.producer_id_len < 1:
            self._refuse_waiting()
            return
        self._following = Block(response.producer_id_start, response.producer_id_len)
        waiting, self._waiting = self._waiting, deque()
        for grant in waiting:
            self.allocate(grant)

    def _refuse_waiting(self) -> None:
        """No block: who waits tries again by himself, and a prefetch is repeated by the next allocation."""
        waiting, self._waiting = self._waiting, deque()
        for grant in waiting:
            grant(-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
