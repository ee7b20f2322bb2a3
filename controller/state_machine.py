"""The images of a controller: the newest, the committed one, and the answers that wait for a commit.

The active controller decides by the newest image: it has replayed its own records when it appended them,
before they are replicated. It answers and shows only what is committed. Images are immutable, so both exist
side by side for the price of a reference:

::

    appended   ──▶  [ 41 ] [ 42 ] [ 43 ]      images that wait for their commit, oldest first
    newest     = the image after 43           decisions look here
    committed  = the image after 40           answers, DescribeCluster, observers
    waiting    = { 42: [answer], 43: [answer, answer] }

When the high watermark passes an offset, its image becomes the committed one and its answers are sent. When
the leadership is lost, what was not committed is forgotten and its answers become NOT_CONTROLLER.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta
from controller.metadata.image.replayer import ImageReplayer, MetadataBatch
from protocol.errors import invariant
from protocol.metadata_log.cluster import BeginTransactionRecord

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
    """The newest image, and the images between the committed one and it.

    on_committed is called with each image that becomes the committed one, and with what has changed.
    """

    def __init__(self, on_committed: Callable[[ClusterImage, ImageDelta], None] | None = None) -> None:
        self.committed: ClusterImage = EMPTY_IMAGE
        self._replayer = ImageReplayer()
        self._steps: deque[_Step] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._on_committed = on_committed
        self._open: list[MetadataBatch] = []
        """What is committed of the metadata transaction that is open in the committed state, from its begin
        on."""

    @property
    def newest(self) -> ClusterImage:
        return self._steps[-1].image if self._steps else self.committed

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open. As a rule an earlier leader has begun it and has died."""
        return self._replayer.in_transaction

    @property
    def appended_offset(self) -> int:
        """The offset of the last record that was replayed, committed or not."""
        return self._steps[-1].last_offset if self._steps else self.committed.offset

    def load(self, image: ClusterImage) -> None:
        """Begins with the image of a snapshot."""
        invariant(not self._steps, "a leader loads no snapshot", waiting=len(self._steps))
        self.committed = image
        self._open.clear()
        self._replayer.reset(image)

    def append(self, batch: MetadataBatch) -> None:
        """Replays a batch that this leader has written and that is not committed yet."""
        steps = self._replayer.replay_batch(batch)
        deltas = tuple(step.delta for step in steps)
        self._steps.append(
            _Step(batch.last_offset, self._replayer.image, deltas, self._replayer.in_transaction)
        )

    def commit(self, batch: MetadataBatch) -> None:
        """Takes in the next committed batch, which this controller has written as the leader, or has
        replicated from one."""
        if self._steps:
            step = self._steps.popleft()
            invariant(
                step.last_offset == batch.last_offset,
                "batches commit in the order of their appends",
                appended=step.last_offset,
                committed=batch.last_offset,
            )
            self.committed = step.image
            self._keep_open(batch, step.in_transaction)
            deltas = step.deltas
        else:
            deltas = tuple(step.delta for step in self._replayer.replay_batch(batch))
            self.committed = self._replayer.image
            self._keep_open(batch, self._replayer.in_transaction)
        if self._on_committed is not None:
            for delta in deltas:
                self._on_committed(self.committed, delta)
        self._answer(batch.last_offset)

    def _keep_open(self, batch: MetadataBatch, in_transaction: bool) -> None:
        """Keeps of a committed batch what no image shows yet, because its transaction is open."""
        if not in_transaction:
            self._open.clear()
            return
        begins = [i for i, record in enumerate(batch.records) if isinstance(record, BeginTransactionRecord)]
        if begins:
            self._open.clear()
            batch = batch._replace(
                base_offset=batch.base_offset + begins[-1], records=batch.records[begins[-1] :]
            )
        self._open.append(batch)

    def when_committed(self, committed: Callable[[], None], lost: Callable[[], None]) -> None:
        """Calls one of the two functions: the first when all that has been appended so far is committed, the
        second when that can never happen."""
        if not self._steps:
            committed()
        else:
            self._waiting.append(_Waiting(self.appended_offset, committed, lost))

    def _answer(self, offset: int) -> None:
        while self._waiting and self._waiting[0].offset <= offset:
            self._waiting.popleft().committed()

    def revert(self) -> None:
        """Goes back to the committed image, because the leadership is lost.

        A transaction that is open in it stays open, with its records: the next leader aborts it, or has the
        rest of it already and commits that.
        """
        self._steps.clear()
        self._replayer.reset(self.committed)
        for batch in self._open:
            self._replayer.replay_batch(batch)
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            waiter.lost()
