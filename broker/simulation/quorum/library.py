"""What all logs of a quorum hold together, seen from outside.

Every batch that is ever appended anywhere becomes one `Batch` here, found again by (base offset, epoch): two
logs that hold the same batch hold the same object. A batch carries a fingerprint of everything before it,
so that *log matching* (Raft 5.3: two logs with the same entry are the same up to it) is one comparison when a
batch is appended, and *committed entries are never changed* is a comparison of identities.

The committed batches are a list in order, the `Ledger`: the first replica that announces a high watermark
extends it, all others are measured by it.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct
from typing import Final

import msgspec

from broker.simulation.verdict import Violation
from controller.raft.identity import ReplicaKey
from protocol.codec.compiler import decode
from protocol.quorum import KRaftVersionRecord, VotersRecord
from protocol.records.control import ControlRecordType, control_type
from protocol.records.reader import records as read_records

__all__ = ["EMPTY_CHAIN", "NO_VOTERS", "Batch", "Electorate", "Ledger", "Library", "Voters"]

EMPTY_CHAIN: Final = 0
"""The fingerprint of an empty log."""

_HEAD: Final = Struct(">qiibIhi")
_OVERHEAD_BYTES: Final = 12
_CONTROL_BIT: Final = 0x20

Electorate = tuple[ReplicaKey, ...]
"""Who votes, by id."""


class Voters(msgspec.Struct, frozen=True):
    """Who votes as records of a log say it; nobody if none does (the config says it then)."""

    kraft_version: int = 0
    record: VotersRecord | None = None

    @property
    def electorate(self) -> Electorate:
        entries = self.record.voters if self.record is not None else ()
        return tuple(ReplicaKey(entry.voter_id, entry.voter_directory_id) for entry in entries)


NO_VOTERS: Final = Voters()


def _voters_after(batch: bytes, voters: Voters) -> Voters:
    """With the control records of a batch; the same object if they do not speak of voters."""
    for record in read_records(batch, 0, check_crc=True):
        kind = control_type(record.key)
        if kind is ControlRecordType.KRAFT_VERSION:
            version = decode(KRaftVersionRecord, 0, record.value or b"").k_raft_version
            voters = Voters(version, voters.record)
        elif kind is ControlRecordType.KRAFT_VOTERS:
            voters = Voters(voters.kraft_version, decode(VotersRecord, 0, record.value or b""))
    return voters


class Batch(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One batch at one place of the log, in one epoch. There is never a second one (Log matching)."""

    base_offset: int
    end_offset: int
    epoch: int
    content: bytes
    before: int
    """Fingerprint of the log up to this batch."""
    chain: int
    """Fingerprint with it."""
    voters: Voters | None
    """The voters from here on, if the batch says so."""
    is_control: bool

    def __str__(self) -> str:
        return f"[{self.base_offset}..{self.end_offset}) of epoch {self.epoch}"


class Library:
    """All batches there ever were."""

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], Batch] = {}

    def admit(self, content: bytes, offset: int, epoch: int, chain: int, voters: Voters) -> list[Batch]:
        """The batches of an append to a log that ends at `offset` with a batch of `epoch` and has the
        fingerprint `chain`; `voters` are those in force there."""
        batches = []
        position = 0
        size_bytes = len(content)
        while position < size_bytes:
            base_offset, length, batch_epoch, _, crc, attributes, delta = _HEAD.unpack_from(content, position)
            after = position + length + _OVERHEAD_BYTES
            if base_offset != offset or after > size_bytes:
                raise Violation(
                    "appends are whole and without gaps",
                    f"a batch of {after - position} bytes at offset {base_offset}, the log ends at {offset}",
                )
            if batch_epoch < epoch:
                raise Violation(
                    "epochs ascend in a log", f"epoch {batch_epoch} at offset {offset} after epoch {epoch}"
                )
            offset = base_offset + delta + 1
            epoch = batch_epoch
            piece = content if after - position == size_bytes else content[position:after]
            batch = self._batches.get((base_offset, epoch))
            if batch is None:
                batch = self._new(piece, base_offset, offset, epoch, crc, attributes, chain, voters)
            elif batch.before != chain or batch.content != piece:
                raise Violation(
                    "log matching", f"{batch} is there with other bytes, or with another log before it"
                )
            if batch.voters is not None:
                voters = batch.voters
            batches.append(batch)
            chain = batch.chain
            position = after
        return batches

    def _new(
        self,
        content: bytes,
        base_offset: int,
        end_offset: int,
        epoch: int,
        crc: int,
        attributes: int,
        chain: int,
        voters: Voters,
    ) -> Batch:
        is_control = attributes & _CONTROL_BIT != 0
        voters_after = _voters_after(content, voters) if is_control else voters
        # said is said, though it be what held before: another log may not have known it
        batch = Batch(
            base_offset,
            end_offset,
            epoch,
            bytes(content),
            chain,
            hash((chain, base_offset, end_offset, epoch, crc)),  # of whole numbers: the same in each process
            None if voters_after is voters else voters_after,
            is_control,
        )
        self._batches[(base_offset, epoch)] = batch
        return batch


class Ledger:
    """What is committed, in order, whoever knows it."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._ends: list[int] = []
        self._epochs: list[int] = []
        """In whose epoch each was first announced as committed."""

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def last(self) -> Batch | None:
        return self.batches[-1] if self.batches else None

    def last_before(self, epoch: int) -> Batch | None:
        """The last that was committed in an epoch before this one."""
        for index in range(len(self.batches) - 1, -1, -1):
            if self._epochs[index] < epoch:
                return self.batches[index]
        return None

    def extend(self, batch: Batch, epoch: int) -> None:
        if batch.base_offset != self.end_offset or batch.before != self.chain_at(self.end_offset):
            raise Violation(
                "committed entries are never changed",
                f"{batch} does not follow what is committed up to {self.end_offset}",
            )
        self.batches.append(batch)
        self._ends.append(batch.end_offset)
        self._epochs.append(epoch)

    def at(self, end_offset: int) -> Batch | None:
        """The committed batch that ends there."""
        index = bisect_left(self._ends, end_offset)
        return self.batches[index] if index < len(self._ends) and self._ends[index] == end_offset else None

    def has_since(self, batch: Batch, epoch: int) -> bool:
        """Whether just this batch was committed, in this epoch or before."""
        index = bisect_left(self._ends, batch.end_offset)
        return index < len(self._ends) and self.batches[index] is batch and self._epochs[index] <= epoch

    def index_from(self, base_offset: int) -> int:
        """Where in `batches` the one stands that begins at base_offset."""
        return bisect_left(self._ends, base_offset + 1)

    def chain_at(self, end_offset: int) -> int:
        """The fingerprint of what is committed up to there; the end of a batch, or 0."""
        if end_offset == 0:
            return EMPTY_CHAIN
        batch = self.at(end_offset)
        if batch is None:
            raise Violation("a snapshot holds what is committed", f"no batch ends at {end_offset}")
        return batch.chain
