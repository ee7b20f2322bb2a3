"""The broker follows the cluster's metadata: it fetches the log from its node's replica, replays it, and
tells publishers.

::

    fetch from (offset, epoch) ──▶ records        replay, publish, fetch on
                               ├─▶ nothing new    the replica answers after max_wait_ms: fetch again
                               ├─▶ another epoch  take it, fetch again
                               ├─▶ snapshot id    fetch the snapshot piece by piece, load it, fetch on
                               └─▶ no answer      pause, fetch again

Only committed records come, so what was replayed never has to be taken back. The image is this broker's
own, in one process with the controller too: they exchange frames. Until the high watermark is known (-1: the
quorum has not told it since the start) and reached nothing is published: an older state would name too few
partitions, and the logs of the others would be taken for strays. Nor is anything published before this start
of the broker is registered and the image says so: in an older image it may lead partitions, as it did before
it went down, while its log may have lost what it had. The controller takes such leaders away with the
registration. Then everything is published at once, a snapshot and what follows it too, so a start costs one
publication and not one per batch. An answer of much work takes several turns of the loop, for its decoding,
its replay and its publication, and so does a snapshot; the next fetch waits for the end.

It keeps nothing on disk, the replica does: a restart reads the log again, from the newest snapshot on if
there is one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from broker.metadata.publishers import MetadataPublisher, SteppedPublisher
from config.limits import METADATA_RECORDS_PER_STEP
from config.ports import Clock, Timer, Timers
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage
from controller.metadata.image.reload import reload_in_steps
from controller.metadata.image.replayer import ImageReplayer, MetadataBatch, Replayed
from controller.metadata.log import METADATA_PARTITION, SnapshotId
from controller.metadata.records import metadata_batches_in_steps
from controller.metadata.snapshots import MetadataSnapshot, decode_snapshot_in_steps
from controller.metadata.topic_names import METADATA_TOPIC
from controller.raft.snapshot_files import snapshot_name
from protocol.codec.message import Message
from protocol.errors import ErrorCode, invariant
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.peer_channel import PeerChannel, PeerError
from protocol.values import METADATA_TOPIC_ID

__all__ = ["MetadataLoader"]

MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 8 << 20
REQUEST_TIMEOUT_MS: Final = 30_000
RETRY_MS: Final = 100
PUBLISHING_TURN_NS: Final = 10_000_000
SNAPSHOT_PIECE_BYTES: Final = 1 << 20
LARGEST_SNAPSHOT_BYTES: Final = 1 << 30

_log = logging.getLogger("barnabas.metadata")


def _always(_: int) -> bool:
    return True


class MetadataLoader:
    """Fetches committed records of the metadata log and publishes the images that follow from them.

    image: the state after everything that was replayed. caught_up: whether an image was published at least
    once.
    """

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: bytes,
        channel: PeerChannel,
        clock: Clock,
        timers: Timers,
        publishers: Sequence[MetadataPublisher],
        is_registered: Callable[[int], bool] = _always,
        on_progress: Callable[[], None] | None = None,
    ) -> None:
        """publishers are called in this order. is_registered: whether the log up to this offset, without it,
        has the registration of this start of the broker. on_progress: after each advance of `offset`."""
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._directory_id = directory_id
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._publishers = [
            (each, each if isinstance(each, SteppedPublisher) else None) for each in publishers
        ]
        """Each with itself if it publishes in steps: to ask at each record would take 15 µs."""
        self._is_registered = is_registered
        self._on_progress = on_progress
        self._replayer = ImageReplayer()
        self._next_offset = 0
        self._last_epoch = 0
        self._leader_epoch = 0
        self._unpublished: list[Replayed] = []
        self.caught_up = False
        self._reported_offset = -1
        self._snapshot: _SnapshotDownload | None = None
        self._work: Iterator[None] | None = None
        self._is_asking = False
        """Whether a request is under way, or will be sent after a pause."""
        self._high_watermark = -1
        self._running = False
        self._retry_timer: Timer | None = None
        self._failing = False

    @property
    def image(self) -> ClusterImage:
        """The newest image; before `caught_up` no publisher has seen it."""
        return self._replayer.image

    @property
    def offset(self) -> int:
        """The offset of the last record that was replayed and published, or -1. Heartbeats report it."""
        return self._reported_offset - 1 if self.caught_up else -1

    def start(self) -> None:
        self._running = True
        self._fetch()

    def stop(self) -> None:
        """Stops the loader; responses that arrive later are ignored."""
        self._running = False
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None

    def look_again(self) -> None:
        """Looks whether the images can be published, because the broker has been registered: its log may have
        come so far before."""
        if self._running and not self.caught_up:
            self._begin(self._publish_in_steps())

    # The log

    def _fetch(self) -> None:
        self._is_asking = True
        partition = FetchRequest.FetchPartition(
            partition=METADATA_PARTITION,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=self._next_offset,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=MAX_BYTES,
            replica_directory_id=self._directory_id,
        )
        request = FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=FetchRequest.ReplicaState(replica_id=self._node_id),
            max_wait_ms=MAX_WAIT_MS,
            max_bytes=MAX_BYTES,
            topics=[FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )
        self._channel.send(request, self._fetched, timeout_ms=MAX_WAIT_MS + REQUEST_TIMEOUT_MS)

    def _fetched(self, response: Message | PeerError) -> None:
        if not self._running:
            return
        if not isinstance(response, FetchResponse):
            self._retry(response.reason if isinstance(response, PeerError) else "an answer of another kind")
            return
        if response.error_code or not response.responses or not response.responses[0].partitions:
            self._retry(f"error {ErrorCode.of(response.error_code).name}")
            return
        partition = response.responses[0].partitions[0]
        leader = partition.current_leader
        known_epoch = self._leader_epoch
        if leader is not None:
            self._leader_epoch = max(self._leader_epoch, leader.leader_epoch)
        if partition.error_code:
            if self._leader_epoch > known_epoch:
                self._fetch()
            else:
                self._retry(f"error {ErrorCode.of(partition.error_code).name}")
            return
        self._failing = False
        invariant(
            partition.diverging_epoch is None,
            "committed records are never taken back",
            next_offset=self._next_offset,
            last_epoch=self._last_epoch,
        )
        if partition.snapshot_id is not None:
            snapshot = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            self._snapshot = _SnapshotDownload(snapshot)
            self._fetch_snapshot(self._snapshot)
            return
        self._is_asking = False
        self._high_watermark = partition.high_watermark
        self._begin(self._take_batches(_content(partition.records)))

    def _begin(self, work: Iterator[None]) -> None:
        """Does some work after the work that is under way."""
        if self._work is not None:
            self._work = chain(self._work, work)
            return
        self._work = work
        self._go_on()

    def _go_on(self) -> None:
        """Replays for a few milliseconds; the rest follows in the next turns of the loop, and then the next
        fetch."""
        if not self._running or self._work is None:
            return
        deadline_ns = self._clock.monotonic_ns() + PUBLISHING_TURN_NS
        work = self._work
        for _ in work:
            if self._clock.monotonic_ns() > deadline_ns:
                self._timers.call_soon(self._go_on)
                return
        if self._work is not work:  # more has come meanwhile
            self._timers.call_soon(self._go_on)
            return
        self._work = None
        if self._running and not self._is_asking:
            self._fetch()

    def _take_batches(self, content: bytes) -> Iterator[None]:
        batches = []
        for batch in metadata_batches_in_steps(content):
            if batch is not None and batch.last_offset >= self._next_offset:
                batches.append(batch)
            yield
        if batches:
            yield from self._replay(batches)
        yield
        yield from self._publish_in_steps()

    def _replay(self, batches: Sequence[MetadataBatch]) -> Iterator[None]:
        """Replays all batches of an answer into one image, so that publishers are called once for them. Each
        is replayed at its own place: what lies before a metadata transaction is an image of its own."""
        for batch in batches:
            for done in range(0, max(len(batch.records), 1), METADATA_RECORDS_PER_STEP):
                part = batch._replace(
                    base_offset=batch.base_offset + done,
                    records=batch.records[done : done + METADATA_RECORDS_PER_STEP],
                )
                self._unpublished += self._replayer.replay_batch(part, hold=True)
                yield
        if self.caught_up and not self._replayer.in_transaction:
            self._unpublished += self._replayer.release()
        self._next_offset = batches[-1].last_offset + 1
        self._last_epoch = batches[-1].epoch

    def _publish_in_steps(self) -> Iterator[None]:
        """Gives the new image to each publisher, in steps."""
        if not self.caught_up:
            if (
                not 0 <= self._high_watermark <= self._next_offset
                or self._replayer.in_transaction
                or not self._next_offset
                or not self._is_registered(self._next_offset)
            ):
                return
            self._unpublished += self._replayer.release()
        steps, self._unpublished = self._unpublished, []
        for step in steps:
            if not step.delta.records_replayed:
                continue
            for publisher, stepped in self._publishers:
                if stepped is not None:
                    yield from stepped.publish_in_steps(step.delta, step.image)
                else:
                    publisher.publish(step.delta, step.image)
        self.caught_up = True
        if self._reported_offset != self._next_offset:
            self._reported_offset = self._next_offset
            if self._on_progress is not None:
                self._on_progress()

    def _retry(self, reason: str) -> None:
        if not self._failing:
            _log.warning("The controller's metadata log cannot be fetched, trying on: %s", reason)
            self._failing = True
        self._retry_timer = self._timers.call_at(self._clock.monotonic_ms() + RETRY_MS, self._fetch)

    # Snapshots

    def _fetch_snapshot(self, download: _SnapshotDownload) -> None:
        piece = FetchSnapshotRequest.PartitionSnapshot(
            partition=METADATA_PARTITION,
            current_leader_epoch=self._leader_epoch,
            snapshot_id=FetchSnapshotRequest.SnapshotId(
                end_offset=download.snapshot.end_offset, epoch=download.snapshot.epoch
            ),
            position=len(download.content),
            replica_directory_id=self._directory_id,
        )
        request = FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._node_id,
            max_bytes=SNAPSHOT_PIECE_BYTES,
            topics=[FetchSnapshotRequest.TopicSnapshot(name=METADATA_TOPIC, partitions=[piece])],
        )
        self._channel.send(request, self._snapshot_fetched, timeout_ms=REQUEST_TIMEOUT_MS)

    def _snapshot_fetched(self, response: Message | PeerError) -> None:
        download = self._snapshot
        if not self._running or download is None:
            return
        if not isinstance(response, FetchSnapshotResponse) or response.error_code or not response.topics:
            self._retry("a snapshot's piece did not come")
            return
        partition = response.topics[0].partitions[0]
        piece = _content(partition.unaligned_records)
        if partition.error_code or partition.position != len(download.content) or not piece:
            self._retry(f"a snapshot's piece: {ErrorCode.of(partition.error_code).name}")
            return
        invariant(
            partition.size <= LARGEST_SNAPSHOT_BYTES, "a snapshot fits into memory", size_bytes=partition.size
        )
        download.content += piece
        if len(download.content) < partition.size:
            self._fetch_snapshot(download)
            return
        self._snapshot = None
        self._is_asking = False
        self._begin(self._loading(download))

    def _loading(self, download: _SnapshotDownload) -> Iterator[None]:
        snapshot = download.snapshot
        content = yield from decode_snapshot_in_steps(bytes(download.content), snapshot_name(snapshot))
        if not self.caught_up:
            yield from self._hold_snapshot(snapshot, content)
            return
        image, delta = yield from reload_in_steps(
            self.image,
            content.records,
            offset=snapshot.end_offset - 1,
            epoch=snapshot.epoch,
            timestamp_ms=content.last_contained_timestamp_ms,
        )
        self._replayer.reset(image)
        self._unpublished.append(Replayed(image, delta))
        self._next_offset = snapshot.end_offset
        self._last_epoch = snapshot.epoch

    def _hold_snapshot(self, snapshot: SnapshotId, content: MetadataSnapshot) -> Iterator[None]:
        """Before the first publication: what the snapshot says becomes visible with the records after it."""
        self._replayer.reset(EMPTY_IMAGE)
        self._unpublished.clear()
        last, timestamp_ms = snapshot.end_offset - 1, content.last_contained_timestamp_ms
        parts = range(0, max(len(content.records), 1), METADATA_RECORDS_PER_STEP)
        for done in parts:
            part = content.records[done : done + METADATA_RECORDS_PER_STEP]
            self._replayer.replay_batch(
                MetadataBatch(last, last, snapshot.epoch, timestamp_ms, part), hold=True
            )
            yield
        self._next_offset, self._last_epoch = snapshot.end_offset, snapshot.epoch


class _SnapshotDownload:
    """A snapshot of which only the first part was fetched so far."""

    def __init__(self, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.content = bytearray()


def _content(records: object) -> bytes:
    """The record bytes of a response, copied out of the frame in which they arrived."""
    if records is None:
        return b""
    is_in_memory = isinstance(records, (memoryview, bytes, bytearray))
    invariant(is_in_memory, "an answer from a peer is in memory")
    return bytes(records)  # type: ignore[call-overload, no-any-return]
