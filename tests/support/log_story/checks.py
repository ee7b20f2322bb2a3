"""What holds of a log after every step: it says what the model says, by whichever way it is asked."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from protocol.records.control import read_marker
from protocol.records.header import headers
from storage.compaction_marker import COMPACTION_MARKER_FILE
from storage.memory_files import MemoryFiles
from storage.partition_log import PartitionLog
from storage.truncation_markers import TRUNCATION_MARKER_FILE
from tests.support.log_story.model import Batch, LogModel, Producer
from tests.support.rigs.log_rig import found_largest_timestamp, found_since

EPOCH_FILE = "leader-epoch-checkpoint"


class Wrong(AssertionError):
    """The engine and the model differ."""


def require(holds: bool, what: str, **numbers: object) -> None:
    if not holds:
        raise Wrong(what + "".join(f", {name}={value!r}" for name, value in numbers.items()))


def check_log(log: PartitionLog, model: LogModel, rng: random.Random) -> None:
    """Raises Wrong."""
    check_numbers(log, model)
    check_contents(log, model, rng)
    check_indexes(log)
    check_lookups(log, model, rng)
    check_producers(log, model)
    check_transactions(log, model, rng)
    check_epochs(log, model)


def check_numbers(log: PartitionLog, model: LogModel) -> None:
    for name, found, expected in (
        ("log end", log.log_end_offset, model.end),
        ("log start", log.log_start_offset, model.start),
        ("high watermark", log.high_watermark, model.high_watermark),
    ):
        require(found == expected, f"the {name} is not the model's", log=found, model=expected)
    require(log.log_start_offset <= log.high_watermark <= log.log_end_offset, "numbers are in order")
    require(log.recovery_point <= log.log_end_offset, "the recovery point is beyond the end")
    require(log.recovery_point >= model.durable, "the recovery point fell", log=log.recovery_point)
    require(not log.appends.queue.prepared, "something stayed in the append queue")
    bases = [segment.base_offset for segment in log.segments]
    require(
        bases == sorted(set(bases)) and log.active is log.segments[-1], "segments are in a row", bases=bases
    )
    require(bases[0] <= log.log_start_offset, "the log start lies before the first segment", bases=bases)


def check_contents(log: PartitionLog, model: LogModel, rng: random.Random) -> None:
    first = log.segments[0].base_offset
    model.replace_batches([batch for batch in model.batches if batch.last >= first])
    expected_size = 0
    for number, segment in enumerate(log.segments):
        behind = log.segments[number + 1].base_offset if number + 1 < len(log.segments) else 1 << 62
        mine = [batch for batch in model.batches if segment.base_offset <= batch.base < behind]
        expected = b"".join(batch.data for batch in mine)
        found = segment.log.file().pread(segment.size_bytes, 0)
        require(
            found == expected, f"{segment.log.path} has other batches than the model",
            log=list(places(found)), model=[(each.base, each.last) for each in mine],
        )  # fmt: skip
        expected_size += len(expected)
    require(log.size_bytes == expected_size, "the size is not that of its batches", log=log.size_bytes)
    readable = model.readable()
    for before, after in itertools.pairwise(readable):
        whole = model.was_compacted or model.has_gaps or before.last + 1 == after.base
        require(before.last < after.base and whole, "offsets do not ascend without gaps", at=after.base)
    read = b"".join(read_all(log, rng.choice((1, 200, 5000))))
    require(read == b"".join(batch.data for batch in readable), "a reader gets something else than the model")


def places(data: bytes) -> Iterator[tuple[int, int]]:
    for _, header in headers(data):
        yield header.base_offset, header.last_offset


def read_all(log: PartitionLog, max_bytes: int) -> Iterator[bytes]:
    """As a consumer with a buffer of that size."""
    offset = log.log_start_offset
    while (piece := log.read(offset, max_bytes=max_bytes)) is not None:
        data = piece.read()
        asked = offset
        for position, header in headers(data):
            yield data[position : position + header.size_bytes]
            offset = header.next_offset
        require(offset > asked, "a read gives no whole batch", offset=asked)


def check_indexes(log: PartitionLog) -> None:
    for segment in log.segments:
        found = dict(segment.headers())
        index = segment.offset_index
        for number in range(index.count):
            offset, position = index._entry(number)
            is_right = position in found and found[position].last_offset == offset
            require(is_right, f"{index.file.path} points beside a batch", entry=number, offset=offset)
        times = segment.time_index
        for number in range(times.count):
            timestamp, offset = times._entry(number)
            so_far = [header.max_timestamp for header in found.values() if header.last_offset <= offset]
            is_right = (bool(so_far) and max(so_far) <= timestamp) or not found
            require(is_right, f"{times.file.path} says a timestamp too early", entry=number, offset=offset)
        index.file.close()
        times.file.close()
        newest = max((header.max_timestamp for header in found.values()), default=-1)
        require(
            segment.largest_timestamp() == newest,
            "the largest timestamp is another",
            base=segment.base_offset,
        )


def check_lookups(log: PartitionLog, model: LogModel, rng: random.Random) -> None:
    readable = model.readable()
    for _ in range(2):
        if model.end > model.start:
            offset = rng.randrange(model.start, model.end)
            limit = rng.randrange(model.start, model.end + 1)
            found = log.read(offset, max_bytes=rng.choice((1, 500)), up_to_offset=limit)
            first = next((batch for batch in readable if batch.last >= offset), None)
            if first is None or first.last >= limit or offset >= limit:
                require(found is None, "a read beyond its limit gives something", offset=offset, limit=limit)
            else:
                require(
                    found is not None and found.base_offset == first.base,
                    "a read begins elsewhere",
                    offset=offset,
                )
    for batch in rng.sample(readable, min(2, len(readable))):
        timestamp = batch.header.max_timestamp + rng.choice((-1, 0, 1))
        time_found, expected = found_since(log, timestamp), model.at_or_after(timestamp)
        require(
            time_found == expected,
            "another record has the timestamp",
            timestamp=timestamp,
            log=time_found,
            model=expected,
        )
    all_records = [record for batch in model.batches for record in batch.records]
    if all_records and not any(not batch.records for batch in model.batches):
        newest = max(record.timestamp for record in all_records)
        first_record = next(record for record in all_records if record.timestamp == newest)
        if first_record.offset >= model.start:
            newest_found = found_largest_timestamp(log)
            is_right = newest_found is not None and newest_found[:2] == (newest, first_record.offset)
            require(
                is_right,
                "another record has the largest timestamp",
                log=newest_found,
                model=first_record.offset,
            )


def check_producers(log: PartitionLog, model: LogModel) -> None:
    told = model.told().producers
    for producer_id, producer in told.items():
        require_producer(log, producer_id, producer, model.reloaded_at)
    known = [entry.producer_id for entry in log.producer_state.entries()]
    require(set(known) <= set(told), "a producer is known that never wrote", log=known, model=list(told))


def require_producer(log: PartitionLog, producer_id: int, producer: Producer, reloaded_at: int) -> None:
    entry = log.producer_state.get(producer_id)
    if entry is None:
        raise Wrong(f"producer {producer_id} is forgotten")
    found = (entry.epoch, entry.last_sequence, entry.last_offset, entry.transaction_first_offset)
    expected = (producer.epoch, producer.last_sequence, producer.last_offset, producer.transaction)
    require(found == expected, f"producer {producer_id} is another", log=found, model=expected)
    require(
        entry.coordinator_epoch == producer.coordinator_epoch,
        "another coordinator",
        log=entry.coordinator_epoch,
    )
    remembered = [(each.first_sequence, each.first_offset, each.last_offset) for each in entry.batches]
    since = [each for each in producer.batches if each[1] >= reloaded_at][-5:]
    is_tail = remembered == producer.batches[-len(remembered) :] if remembered else not producer.batches
    require(
        is_tail and len(remembered) >= min(len(since), 5) and len(remembered) <= 5,
        f"batches of producer {producer_id} are not remembered", log=remembered, model=producer.batches[-5:],
    )  # fmt: skip


def check_transactions(log: PartitionLog, model: LogModel, rng: random.Random) -> None:
    stable = log.last_stable_offset
    exact, loose = model.stable_offset(), model.stable_offset(with_undecided_markers=False)
    if model.reloaded_at:
        require(
            exact <= stable <= loose, "the last stable offset is another", log=stable, model=(exact, loose)
        )
    else:
        require(stable == exact, "the last stable offset is another", log=stable, model=exact)
    entries = [each for segment in log.segments for each in segment.transaction_index.entries()]
    found = [(each.producer_id, each.first_offset, each.last_offset) for each in entries]
    first = log.segments[0].base_offset
    expected = [tuple(each) for each in model.aborted() if each.marker >= first]
    if model.reloaded_at and not model.was_compacted:
        # one whose records are all deleted need not be known any more
        known = {(producer_id, marker) for producer_id, _, marker in found}
        ids = [(each.header.producer_id, each.base) for each in model.batches if not each.header.is_control]
        for each in model.aborted():
            is_needed = any(of == each.producer_id and each.first <= base < each.marker for of, base in ids)
            is_known = (each.producer_id, each.marker) in known
            require(is_known or not is_needed, "an aborted transaction is not known", log=found, model=each)
    elif not model.was_compacted:
        require(
            found == expected, "other transactions are aborted than in the model", log=found, model=expected
        )
    ever = [*model.aborted_once, *model.aborted()]
    aborted = {(each.producer_id, each.marker): each.first for each in ever}
    for producer_id, begin, marker in found:  # its first batches may be compacted away
        is_one = aborted.get((producer_id, marker), 1 << 62) <= begin
        require(is_one, "a transaction counts as aborted", log=found, model=expected)
    committed = list(read_committed(log, rng.choice((1, 400, 5000))))
    wanted = model.committed(stable)
    if committed != wanted:
        raise Wrong(f"read_committed gets {committed}, the model {wanted}")


def read_committed(log: PartitionLog, max_bytes: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """As Kafka's consumer filters: by the list of aborted transactions that came with each fetch."""
    offset = log.log_start_offset
    while (piece := log.read(offset, max_bytes=max_bytes, up_to_offset=log.last_stable_offset)) is not None:
        waiting = log.aborted_transactions(offset, piece)
        undone: set[int] = set()
        data, asked = piece.read(), offset
        for position, header in headers(data):
            batch = Batch(data[position : position + header.size_bytes])
            while waiting and waiting[0][1] <= batch.last:
                undone.add(waiting.pop(0)[0])
            offset = header.next_offset
            if header.is_control:
                marker = None
                if batch.records:
                    marker = read_marker(batch.records[0].key, batch.records[0].value)
                if marker is not None and not marker.committed:
                    undone.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in undone):
                for each in batch.records:
                    if each.offset >= log.log_start_offset:
                        yield each.offset, each.key, each.value
        require(offset > asked, "a read gives no whole batch", offset=asked)


def check_epochs(log: PartitionLog, model: LogModel) -> None:
    epochs = log.leader_epochs
    entries = epochs.entries()
    require(entries == sorted(set(entries)), "leader epochs do not ascend", log=entries)
    require(not entries or entries[-1][1] <= model.end, "a leader epoch begins beyond the end", log=entries)
    require(not entries or entries[-1][0] <= model.leader_epoch, "an epoch that never was", log=entries)
    readable = model.readable()
    for number, batch in enumerate(readable):
        epoch = batch.header.partition_leader_epoch
        if max(batch.base, model.start) < model.epochs_known_from:
            continue
        found = epochs.epoch_of(max(batch.base, model.start))
        require(found == epoch, "a batch is of another epoch", offset=batch.base, log=entries, model=epoch)
        behind = readable[number + 1] if number + 1 < len(readable) else None
        if behind is None or behind.header.partition_leader_epoch > epoch:
            of, end = log.end_offset_for_epoch(epoch)
            highest = model.end if behind is None else behind.base
            if behind is None and epochs.latest_epoch > epoch:
                highest = model.end
            require(
                of == epoch and batch.last < end <= highest, "an epoch ends elsewhere",
                epoch=epoch, log=(of, end), model=(batch.last + 1, highest),
            )  # fmt: skip


# What lies in the directories


def check_checkpoints(memory: MemoryFiles, directories: list[str], logs: list[PartitionLog]) -> None:
    """Every small file is whole, at any moment."""
    for directory in directories:
        for name in memory.listdir(directory):
            if name.endswith("-checkpoint"):
                read_strictly(memory.read_text(f"{directory}/{name}"), words=3)
    for log in logs:
        path = f"{log.directory}/{EPOCH_FILE}"
        if memory.exists(path):
            read_strictly(memory.read_text(path), words=2)


def read_strictly(text: str, *, words: int) -> list[list[str]]:
    """A checkpoint as the format says, to the last byte."""
    lines = text.split("\n")
    require(
        lines[0] == "0" and lines[-1] == "" and lines[1] == str(len(lines) - 3),
        "a checkpoint is odd",
        text=text,
    )
    entries = [line.split(" ") for line in lines[2:-1]]
    for entry in entries:
        numbers = entry[words - 2 :]
        is_right = len(entry) == words and all(str(int(number)) == number for number in numbers)
        require(
            is_right and all(int(number) >= 0 for number in numbers), "a checkpoint's line is odd", line=entry
        )
    require(
        len({tuple(entry[:-1]) for entry in entries}) == len(entries), "a checkpoint says it twice", text=text
    )
    return entries


def check_names(memory: MemoryFiles, log: PartitionLog) -> None:
    """After an orderly start and its background tasks nothing lies about, and nothing is missing."""
    wanted = {"partition.metadata"}
    for segment in log.segments:
        stem = f"{segment.base_offset:020d}"
        wanted |= {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex"}
    may = {f"{offset:020d}.snapshot" for offset in log.durability.snapshot_offsets}
    may |= {EPOCH_FILE, COMPACTION_MARKER_FILE}
    may |= {f"{segment.base_offset:020d}.txnindex" for segment in log.segments}
    active = f"{log.active.base_offset:020d}"
    may |= {f"{active}.index", f"{active}.timeindex"}
    may |= (
        {TRUNCATION_MARKER_FILE} if log.durability.truncation_marker is not None else set()
    )  # the end of a bare log fell
    found = set(memory.listdir(log.directory))
    require(found <= wanted | may, "stray files", found=sorted(found - wanted - may))
    require(wanted - may <= found, "files are missing", missing=sorted(wanted - may - found))


def check_handles(open_paths: list[str], logs: list[PartitionLog], held: list[str]) -> None:
    """Open are the logs of segments and what somebody holds a slice of, each once."""
    allowed = {segment.log.path for log in logs for segment in log.segments} | set(held)
    stray = [path for path in open_paths if path not in allowed]
    require(not stray, "a descriptor leaked", paths=stray)
    require(len(open_paths) <= len(allowed) + len(held), "a file is open twice", paths=open_paths)
