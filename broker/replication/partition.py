"""One partition as this broker hosts it: its role, how far it is replicated, and who waits for it to change.

Nothing in here does input or output by itself; the log is an object that was given, and the time plays no
part.

::

    log start           last stable   high watermark        log end
        |--- readable by consumers ---------|--- not yet replicated ---|

The high watermark is the smallest log end among the replicas that are in sync, the leader's own included. It
never goes back while a leader leads, and it stands still while fewer replicas are in sync than the topic asks
for (KIP-966): what `acks=1` appends then is in the log, but no consumer sees it yet.

The epoch of a request is checked before the role (KIP-320): a client with an older picture is told FENCED,
one with a newer picture than ours is told UNKNOWN, and only then it matters whether we lead.

Watchers are told once. Whoever watches a partition is taken off the list when it changes, told, and may
watch again: an append to a partition that nobody waits for costs one look at an empty dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from protocol.errors import ErrorCode
from storage.partition_log import PartitionLog

NO_EPOCH: Final = -1
"""In a request: whoever asks knows no epoch, so none is checked."""
NO_LEADER: Final = -1

_NONE: Final = int(ErrorCode.NONE)
_FENCED: Final = int(ErrorCode.FENCED_LEADER_EPOCH)
_UNKNOWN: Final = int(ErrorCode.UNKNOWN_LEADER_EPOCH)
_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_STORAGE: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)


class Watcher(Protocol):
    """Who wants to know of a change; `token` is what it left when it began to watch."""

    def partition_grew(self, token: Any, size_bytes: int) -> None:
        """Consumers can read `size_bytes` more than before."""
        ...

    def partition_changed(self, token: Any) -> None:
        """The role, the epoch or the log itself changed: look again and answer."""
        ...


class PartitionWatcher(Protocol):
    """Who keeps a partition at hand although nothing happens; `token` is what it left with it."""

    def partition_gone(self, token: Any) -> None:
        """It is hosted no longer: let go of it."""
        ...


class CommitWaiter(Protocol):
    """An acknowledgement that waits until everything before an offset is replicated."""

    def replicated(self, partition: Partition, error: ErrorCode) -> None: ...


class DeletionWaiter(Protocol):
    """Who waits until no live replica has a record below an offset."""

    def low_watermark_moved(self, partition: Partition) -> None:
        """Look again, by `Partition.low_watermark`; also if it is not ours to say any more."""
        ...


class TopicCounters:
    """What happened to one topic on this broker since it started; plain integers, read by whoever exports
    them."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "messages_in",
        "topic",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.total_produce_requests = 0
        self.total_fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0


class Partition:
    """A hosted partition. The replica manager makes it; the image's differences and appends change it."""

    __slots__ = (
        "__weakref__",
        "commit_waiters",
        "counters",
        "deletion_waiters",
        "follower_end_offsets",
        "follower_log_starts",
        "holders",
        "index",
        "is_alone",
        "is_leader",
        "is_offline",
        "is_under_min_isr",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "log",
        "min_insync_replicas",
        "node_id",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
        "trusted_connection",
        "unseen_bytes",
        "watchers",
    )

    def __init__(
        self,
        *,
        topic: str,
        topic_id: bytes,
        index: int,
        node_id: int,
        log: PartitionLog,
        counters: TopicCounters,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.node_id = node_id
        self.log = log
        self.counters = counters
        self.is_leader = False
        self.is_offline = False
        """The log cannot be used on; answers are KAFKA_STORAGE_ERROR for the rest of this broker's life."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start_offset = 0
        """Our log's end when this broker began to lead in the current epoch."""
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        """As the topic is configured; see `effective_min_isr`."""
        self.is_under_min_isr = False
        """Fewer replicas are in sync than acks=all asks for."""
        self.is_alone = False
        """We lead, nobody else is in sync, and that is enough: what is in our log is replicated."""
        self.trusted_connection = ""
        """The connection whose batch was taken by its header last; see `watched_batches`."""
        self.follower_end_offsets: dict[int, int] = {}
        """Log end of each other replica in the ISR, as its fetches told; -1 until the first one."""
        self.follower_log_starts: dict[int, int] = {}
        """Log start of each other replica, in the ISR or not, as its fetches told; -1 until the first one."""
        self.unseen_bytes = 0
        """Appended beyond the high watermark; a long poll counts them when they become visible."""
        self.watchers: dict[Watcher, Any] = {}
        self.holders: dict[PartitionWatcher, Any] = {}
        self.commit_waiters: list[tuple[int, CommitWaiter]] = []
        """(offset that the high watermark must reach, who waits), in the order of the appends."""
        self.deletion_waiters: list[DeletionWaiter] = []

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def effective_min_isr(self) -> int:
        """Replicas that must be in sync for acks=all; never more than there are replicas."""
        return min(self.min_insync_replicas, max(1, len(self.replicas)))

    def refusal(self, current_leader_epoch: int, *, leader_only: bool = True) -> int:
        """The error code for a request that names this epoch, 0 if it may go on.

        Only -1 names none: a lower number is an epoch that was fenced long ago. `leader_only` is false for
        readers that any replica may serve.
        """
        if self.is_offline:
            return _STORAGE
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            return _FENCED if current_leader_epoch < self.leader_epoch else _UNKNOWN
        if leader_only and not self.is_leader:
            return _NOT_LEADER
        return _NONE

    def follow_image(
        self,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        min_insync_replicas: int,
    ) -> bool:
        """Take over what the metadata log says of the partition. Whether the leader or its epoch changed.

        Waiting acknowledgements of an epoch that we no longer lead fail; watchers look again.
        """
        moved = leader_id != self.leader_id or leader_epoch != self.leader_epoch
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.min_insync_replicas = min_insync_replicas
        leads = leader_id == self.node_id
        if moved and leads:
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.log.leader_epochs.assign(leader_epoch, self.log.log_end_offset)
        self.is_leader = leads
        ends = self.follower_end_offsets
        others = [replica for replica in self.isr if replica != self.node_id] if leads else []
        self.follower_end_offsets = {replica: ends.get(replica, -1) for replica in others}
        starts = self.follower_log_starts
        followers = [replica for replica in self.replicas if replica != self.node_id] if leads else []
        self.follower_log_starts = {replica: starts.get(replica, -1) for replica in followers}
        self._count_replicas()
        if moved and self.log.lane is not None:
            self.log.lane.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not leads:
            self.fail_commit_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if moved:
            self.tell_changed()
        if leads:
            self.advance_high_watermark()
        if self.deletion_waiters:
            self._tell_deletion_waiters()
        return moved

    def require_insync(self, min_insync_replicas: int) -> None:
        """The topic's `min.insync.replicas` changed."""
        self.min_insync_replicas = min_insync_replicas
        self._count_replicas()
        if self.is_leader:
            self.advance_high_watermark()

    def _count_replicas(self) -> None:
        self.is_under_min_isr = len(self.isr) < self.effective_min_isr
        self.is_alone = self.is_leader and not self.follower_end_offsets and not self.is_under_min_isr

    def retire(self) -> None:
        """The partition is hosted here no longer: nobody waits for it in vain."""
        self.is_leader = self.is_alone = False
        self.leader_id = NO_LEADER
        if self.log.lane is not None:
            self.log.lane.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.fail_commit_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.tell_changed()
        self._tell_deletion_waiters()
        self._tell_gone()

    def go_offline(self) -> None:
        """The disk has failed under the log: whoever waits is told so."""
        self.is_offline = True
        self.is_leader = self.is_alone = False
        self.fail_commit_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
        self.tell_changed()
        self._tell_deletion_waiters()
        self._tell_gone()

    def _tell_gone(self) -> None:
        holders, self.holders = self.holders, {}
        for holder, token in holders.items():
            holder.partition_gone(token)

    def follower_fetched(self, replica_id: int, fetch_offset: int, log_start_offset: int = -1) -> None:
        """A follower asks for this offset: so it has all before it, down to its log start."""
        if self.follower_log_starts.get(replica_id, log_start_offset) != log_start_offset:
            self.follower_log_starts[replica_id] = log_start_offset
            self._tell_deletion_waiters()
        if replica_id in self.follower_end_offsets:
            self.follower_end_offsets[replica_id] = fetch_offset
            self.advance_high_watermark()

    # Deletion of records.

    def raise_log_start(self, offset: int) -> None:
        """As the leader: what lies below is read no more. `offset` is at most the high watermark. Followers
        learn it from their next fetch, which may be waiting already."""
        if self.log.increase_log_start(offset):
            self.tell_changed()

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """The least log start among the live replicas; -1 while one of them has told nothing."""
        starts = [start for replica, start in self.follower_log_starts.items() if is_alive(replica)]
        return min(self.log.log_start_offset, *starts) if starts else self.log.log_start_offset

    def _tell_deletion_waiters(self) -> None:
        for waiter in tuple(self.deletion_waiters):
            waiter.low_watermark_moved(self)

    def appended(self, size_bytes: int) -> None:
        """The log has grown by so much, by this broker's own append."""
        if not self.is_alone:
            self.unseen_bytes += size_bytes
            self.advance_high_watermark()
            return
        log = self.log
        log.update_high_watermark(log.log_end_offset)
        if self.commit_waiters:
            self._acknowledge(log.high_watermark)
        if self.watchers:
            self.tell_grew(size_bytes)

    def advance_high_watermark(self) -> None:
        """Move the high watermark as far as the replicas in sync allow, and tell who waits for that."""
        log = self.log
        end = log.log_end_offset
        if self.follower_end_offsets:
            end = min(end, *self.follower_end_offsets.values())
        if end <= log.high_watermark or self.is_under_min_isr:
            return
        log.update_high_watermark(end)
        grown, self.unseen_bytes = self.unseen_bytes, 0
        if self.commit_waiters:
            self._acknowledge(end)
        if self.watchers:
            self.tell_grew(grown)

    def watch(self, watcher: Watcher, token: Any) -> None:
        """Tell `watcher` of the next change, once."""
        self.watchers[watcher] = token

    def unwatch(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)

    def tell_grew(self, size_bytes: int) -> None:
        watchers, self.watchers = self.watchers, {}
        for watcher, token in watchers.items():
            watcher.partition_grew(token, size_bytes)

    def tell_changed(self) -> None:
        watchers, self.watchers = self.watchers, {}
        for watcher, token in watchers.items():
            watcher.partition_changed(token)

    def wait_for_commit(self, offset: int, waiter: CommitWaiter) -> None:
        """Have `waiter` told once the high watermark has reached `offset`, or cannot any more."""
        self.commit_waiters.append((offset, waiter))

    def forget_commit_waiter(self, waiter: CommitWaiter) -> None:
        self.commit_waiters = [entry for entry in self.commit_waiters if entry[1] is not waiter]

    def fail_commit_waiters(self, error: ErrorCode) -> None:
        waiters, self.commit_waiters = self.commit_waiters, []
        for _, waiter in waiters:
            waiter.replicated(self, error)

    def _acknowledge(self, high_watermark: int) -> None:
        reached = [entry for entry in self.commit_waiters if entry[0] <= high_watermark]
        self.commit_waiters = [entry for entry in self.commit_waiters if entry[0] > high_watermark]
        error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if self.is_under_min_isr else ErrorCode.NONE
        for _, waiter in reached:
            waiter.replicated(self, error)
