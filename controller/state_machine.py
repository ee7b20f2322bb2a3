"""Images over time: the newest, the committed, and who waits for what.

A leader decides by the newest image: it has replayed its own records when it appended them, before anybody
else has them. It answers and shows only what is committed. Images are immutable, so both exist side by side
for the price of a reference:

::

    appended   ──▶  [ 41 ] [ 42 ] [ 43 ]      images that wait for their commit, oldest first
    newest     = the image after 43           decisions look here
    committed  = the image after 40           answers, DescribeCluster, observers
    waiting    = { 42: [answer], 43: [answer, answer] }

When the high watermark passes an offset, its image becomes the committed one and its answers leave. When the
leadership is lost, what was not committed is forgotten and its answers become NOT_CONTROLLER.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta
from controller.metadata.image.replayer import ImageReplayer, MetadataBatch
from protocol.errors import invariant

__all__ = ["ImageTimeline"]


class _Step(NamedTuple):
    last_offset: int
    image: ClusterImage
    deltas: tuple[ImageDelta, ...]
    in_transaction: bool


class _Waiting(NamedTuple):
    offset: int
    committed: Callable[[], None]
    lost: Callable[[], None]


class ImageTimeline:
    """The newest image, and those on the way to it.

    on_committed is told of each image that became visible, with what changed.
    """

    def __init__(self, on_committed: Callable[[ClusterImage, ImageDelta], None] | None = None) -> None:
        self.committed: ClusterImage = EMPTY_IMAGE
        self._replayer = ImageReplayer()
        self._steps: deque[_Step] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._on_committed = on_committed
        self._committed_in_transaction = False

    @property
    def newest(self) -> ClusterImage:
        return self._steps[-1].image if self._steps else self.committed

    @property
    def in_transaction(self) -> bool:
        """A transaction was begun (by an earlier leader that died, as a rule) and is still open."""
        return self._replayer.in_transaction

    @property
    def appended_offset(self) -> int:
        """Offset of the last record replayed, committed or not."""
        return self._steps[-1].last_offset if self._steps else self.committed.offset

    def load(self, image: ClusterImage) -> None:
        """From a snapshot."""
        invariant(not self._steps, "a leader loads no snapshot", waiting=len(self._steps))
        self.committed = image
        self._replayer.reset(image)

    def append(self, batch: MetadataBatch) -> None:
        """A batch that this leader wrote and that is not committed yet."""
        steps = self._replayer.replay_batch(batch)
        deltas = tuple(step.delta for step in steps)
        self._steps.append(
            _Step(batch.last_offset, self._replayer.image, deltas, self._replayer.in_transaction)
        )

    def commit(self, batch: MetadataBatch) -> None:
        """The next committed batch: one of ours, or a leader's that we follow."""
        if self._steps:
            step = self._steps.popleft()
            invariant(
                step.last_offset == batch.last_offset,
                "batches commit in the order of their appends",
                appended=step.last_offset,
                committed=batch.last_offset,
            )
            self.committed = step.image
            self._committed_in_transaction = step.in_transaction
            deltas = step.deltas
        else:
            deltas = tuple(step.delta for step in self._replayer.replay_batch(batch))
            self.committed = self._replayer.image
            self._committed_in_transaction = self._replayer.in_transaction
        if self._on_committed is not None:
            for delta in deltas:
                self._on_committed(self.committed, delta)
        self._answer(batch.last_offset)

    def when_committed(self, committed: Callable[[], None], lost: Callable[[], None]) -> None:
        """Calls one of the two: all that has been appended so far is committed, or will never be."""
        if not self._steps:
            committed()
        else:
            self._waiting.append(_Waiting(self.appended_offset, committed, lost))

    def _answer(self, offset: int) -> None:
        while self._waiting and self._waiting[0].offset <= offset:
            self._waiting.popleft().committed()

    def revert(self) -> None:
        """The leadership is lost: back to what is committed.

        Of a transaction that was open there only the fact is kept: each new leader aborts what it inherits.
        """
        self._steps.clear()
        self._replayer.reset(self.committed, in_transaction=self._committed_in_transaction)
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            waiter.lost()
