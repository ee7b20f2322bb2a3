"""What each kind of step does to the engine and, if the engine says that it is done, to the model."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from protocol.errors import ErrorCode
from storage.errors import AppendRefused, LogStorageError
from tests.support.log_story import appending
from tests.support.log_story.after_compaction import accept_compaction
from tests.support.log_story.appending import Sent
from tests.support.log_story.checks import require
from tests.support.log_story.hosts import NodeHost, changed
from tests.support.log_story.model import Batch
from tests.support.log_story.reunion import meet_producers
from tests.support.rigs.log_rig import done, prepare

if TYPE_CHECKING:
    from storage.partition_log import PartitionLog
    from tests.support.log_story.story import Story
    from tests.support.log_story.subject import Subject

Do = Callable[["Story", "Subject", random.Random], None]


def _read_back(log: PartitionLog, base: int) -> Batch:
    """The batch as the log now has it."""
    segment = log.segments[log.segments.number_of(base)]
    found = segment.locate(base)
    if found is None or found.base_offset != base:
        require(False, "an answered batch is not there", base=base)
        raise AssertionError
    return Batch(segment.read(found.position, found.size_bytes))


def _take(story: Story, subject: Subject, sent: Sent, base: int) -> None:
    model = subject.model
    require(base == model.end, "a batch got another offset", log=base, model=model.end)
    plan, story.files.plan = story.files.plan, None
    batch = _read_back(story.log_of(subject), base)
    story.files.plan = plan
    sent.require_is(batch, base, model.leader_epoch, story.clock.now_ms)
    model.take(batch)
    subject.appending = []


def _append(story: Story, subject: Subject, sent: Sent) -> None:
    """One batch by the way that its kind takes. Raises LogStorageError."""
    log, model = story.log_of(subject), subject.model
    data = sent.encoded()
    if len(data) > log.config.segment_bytes:
        return
    subject.appending = [sent]
    if sent.commits is not None:
        result = done(log.append_internal(data, leader_epoch=model.leader_epoch, now_ms=story.clock.now_ms))
    else:
        given = bytes(data) if len(data) % 3 == 0 else memoryview(data)
        try:
            result = done(
                log.append_as_leader(given, leader_epoch=model.leader_epoch, now_ms=story.clock.now_ms)
            )
        except AppendRefused as refused:
            require(refused.error_code is ErrorCode.RECORD_LIST_TOO_LARGE, f"refused: {refused}")
            subject.appending = []
            return
    require(not result.is_duplicate, "a new batch counts as a duplicate")
    _take(story, subject, sent, result.base_offset)
    story.say(f"    {sent} at offset {result.base_offset}")


def append(story: Story, subject: Subject, rng: random.Random) -> None:
    _append(story, subject, appending.plain(rng, story.clock.now_ms))


def append_idempotent(story: Story, subject: Subject, rng: random.Random) -> None:
    _append(story, subject, appending.following(rng, subject.model, story.clock.now_ms, transactional=False))


def append_in_a_transaction(story: Story, subject: Subject, rng: random.Random) -> None:
    _append(story, subject, appending.following(rng, subject.model, story.clock.now_ms, transactional=True))


def end_a_transaction(story: Story, subject: Subject, rng: random.Random) -> None:
    sent = appending.marker(rng, subject.model, story.clock.now_ms)
    if sent is not None:
        _append(story, subject, sent)


def append_several_at_once(story: Story, subject: Subject, rng: random.Random) -> None:
    """Prepared together; committed, or rolled back before or after the write, or only some committed."""
    log, model, now_ms = story.log_of(subject), subject.model, story.clock.now_ms
    sent: list[Sent] = []
    prepared = []
    for _ in range(rng.randrange(1, 6)):
        each = (
            appending.plain(rng, now_ms)
            if rng.random() < 0.5
            else appending.following(rng, model, now_ms, transactional=False, behind=sent)
        )
        if len(each.encoded()) > log.config.segment_bytes:
            continue
        try:
            one = prepare(log, each.encoded(), leader_epoch=model.leader_epoch, now_ms=now_ms)
        except AppendRefused as refused:
            require(refused.error_code is ErrorCode.RECORD_LIST_TOO_LARGE, f"refused: {refused}")
            break
        prepared.append(one)
        sent.append(each)
    end = model.end
    require(log.log_end_offset == end, "what is prepared can be seen")
    what = rng.random()
    if what < 0.15:
        require(log.appends.queue.rollback() == len(prepared), "a rollback forgets some")
        story.say(f"    {len(prepared)} prepared and rolled back")
        return
    subject.appending = list(sent)
    try:
        log.appends.queue.write(prepared, now_ms)
    except LogStorageError:
        log.appends.queue.rollback()
        raise
    require(log.log_end_offset == end, "what is written and not committed can be seen")
    committed = len(prepared) if what < 0.7 else rng.randrange(len(prepared) + 1)
    try:
        results = log.appends.queue.commit(prepared[:committed])
    except LogStorageError:
        log.appends.queue.rollback()
        raise
    for each, result in zip(sent, results, strict=False):
        _take(story, subject, each, result.base_offset)
    subject.appending = list(sent[committed:])
    if committed < len(prepared):
        log.appends.queue.rollback()
        subject.leftovers += [subject.appending] if log.segments.has_failed_write else []
    subject.appending = []
    story.say(
        f"    {committed} of {len(prepared)} committed, the rest rolled back: the log ends at {model.end}"
    )


def copy_from_a_leader(story: Story, subject: Subject, rng: random.Random) -> None:
    """Batches as they lie in another's log, sometimes with a gap, a torn one at the end."""
    log, model, now_ms = story.log_of(subject), subject.model, story.clock.now_ms
    offset = model.end
    sent: list[Sent] = []
    datas: list[bytes] = []
    for _ in range(rng.randrange(1, 5)):
        kind = rng.random()
        each: Sent | None = appending.plain(rng, now_ms)
        if kind < 0.3:
            each = appending.following(rng, model, now_ms, transactional=kind < 0.15, behind=sent)
        elif kind < 0.5:
            each = appending.marker(rng, model, now_ms, behind=sent)
        if each is None:
            continue
        data = bytes(each.encoded(offset, model.leader_epoch))
        if len(data) > log.config.segment_bytes:
            continue
        sent.append(each)
        datas.append(data)
        offset += len(each.records)
    subject.appending = list(datas)
    torn = bytes(appending.plain(rng, now_ms).encoded(offset, model.leader_epoch))[:-1]
    copied = done(log.append_as_follower(b"".join(datas) + torn, now_ms))
    require(copied.last_offset == offset - 1, "a follower takes other batches", log=copied.last_offset)
    for data in datas:
        model.take(Batch(data))
    subject.appending = []
    story.say(f"    {len(datas)} batches copied: the log ends at {model.end}")


def send_again(story: Story, subject: Subject, rng: random.Random) -> None:
    """The last batch of a producer comes a second time: the first answer once more, and nothing changes."""
    log, model = story.log_of(subject), subject.model
    for producer_id, producer in sorted(model.told().producers.items()):
        if producer.batches and rng.random() < 0.6:
            remembered = [each for each in producer.batches[-5:] if each[1] >= model.reloaded_at]
            sequence, base, last = rng.choice([*remembered, producer.batches[-1]])
            rows = tuple((story.clock.now_ms, b"k", b"") for _ in range(last - base + 1))
            is_open = producer.transaction >= 0
            again = Sent(rows, 0, producer_id, producer.epoch, sequence, is_open).encoded()
            result = done(
                log.append_as_leader(
                    memoryview(again), leader_epoch=model.leader_epoch, now_ms=story.clock.now_ms
                )
            )
            found = (result.is_duplicate, result.base_offset, result.last_offset)
            require(
                found == (True, base, last),
                "a repeated batch is not recognised",
                log=found,
                model=(base, last),
            )
            story.say(f"    producer {producer_id} sends sequence {sequence} again")


def send_nonsense(story: Story, subject: Subject, rng: random.Random) -> None:
    """A gap in the sequence, an old epoch: refused, and nothing changes."""
    log, model = story.log_of(subject), subject.model
    rows = ((story.clock.now_ms, b"k", b"x"),)
    for producer_id, producer in sorted(model.told().producers.items()):
        trials = [(producer.epoch, producer.last_sequence + 7, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
        if producer.epoch > 0:
            trials.append((producer.epoch - 1, 1000, ErrorCode.INVALID_PRODUCER_EPOCH))
        trials.append((producer.epoch + 1, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
        epoch, sequence, expected = rng.choice(trials)
        data = Sent(rows, 0, producer_id, epoch, sequence, producer.transaction >= 0).encoded()
        with pytest.raises(AppendRefused) as refused:
            log.append_as_leader(memoryview(data), leader_epoch=model.leader_epoch, now_ms=story.clock.now_ms)
        require(refused.value.error_code is expected, "refused with another error", log=str(refused.value))


def raise_the_high_watermark(story: Story, subject: Subject, rng: random.Random) -> None:
    log, model = story.log_of(subject), subject.model
    offset = rng.choice((model.end, model.end + 5, rng.randrange(model.end + 1)))
    moved = log.update_high_watermark(offset)
    reached = max(model.high_watermark, min(offset, model.end))
    require(moved == (reached > model.high_watermark), "the high watermark moved otherwise")
    model.high_watermark = reached
    story.say(f"    to {reached}")


def new_leader(story: Story, subject: Subject, rng: random.Random) -> None:
    subject.model.leader_epoch += rng.choice((1, 1, 3))


def roll(story: Story, subject: Subject, rng: random.Random) -> None:
    story.log_of(subject).roll(story.clock.now_ms)


def sync_all(story: Story, subject: Subject) -> None:
    """Flushes, and sees to it that it is done; a background task that fails raises nothing and proves
    nothing."""
    log = story.log_of(subject)
    end = log.log_end_offset
    log.flush()
    log.durability.write_leader_epochs()
    went_well = story.host.run_background_tasks()
    plan = story.files.plan
    if went_well and subject.key in story.host.logs and not (plan and plan.struck):
        require(log.recovery_point == end, "a flush does not reach the end", log=log.recovery_point, end=end)
        subject.model.durable = end
        subject.cut_stays()


def _is_on_the_disk(story: Story, subject: Subject) -> bool:
    """A cut has noted its sync; here it is done, so that nothing of it can come back. False if the disk has
    failed for good."""
    for _ in range(2):
        log = story.log_of(subject)
        story.host.run_background_tasks()
        if subject.key not in story.host.logs:
            return False
        if not (story.files.plan and story.files.plan.struck):
            break
        story.files.plan = None
        log.flush()
    subject.cut_stays()
    return True


def flush(story: Story, subject: Subject, rng: random.Random) -> None:
    sync_all(story, subject)


def background_tasks(story: Story, subject: Subject, rng: random.Random) -> None:
    story.host.run_background_tasks()


def housekeeping(story: Story, subject: Subject, rng: random.Random) -> None:
    story.host.housekeeping()


def truncate(story: Story, subject: Subject, rng: random.Random) -> None:
    """To an offset in the log, seldom beyond its end. Synced at once, or not: then it may come back."""
    log, model = story.log_of(subject), subject.model
    offset = max(model.end - rng.choice((0, 1, 2, 5, 20)), model.start)
    inside = [batch.base for batch in model.batches if batch.base < offset <= batch.last]
    subject.cutting = min([offset, *inside])
    truncations = log.truncations
    log.truncate_to(offset, now_ms=story.clock.now_ms)
    if log.truncations == truncations:
        require(offset >= model.end, "nothing was cut off", offset=offset)
        subject.cutting = None
        return
    may_return = [*subject.may_return, *model.batches, *model.former.values()]
    started_at = max(model.start, subject.started_at if subject.may_return else 0)
    is_later = rng.random() < 0.5
    if is_later or _is_on_the_disk(story, subject):
        model.cut(offset)
        meet_producers(model, log, story.counts, is_exact=False)
        subject.cutting = None
    if is_later:
        story.counts["cuts that may come back"] += 1
        lowest = min(subject.returns_from, model.end) if subject.may_return else model.end
        subject.returns_from = lowest
        subject.may_return = [batch for batch in may_return if batch.last >= lowest]
        subject.started_at = started_at
    story.say(f"    to offset {offset}: the log ends at {log.log_end_offset}")


def truncate_fully(story: Story, subject: Subject, rng: random.Random) -> None:
    log, model = story.log_of(subject), subject.model
    offset = model.end + rng.choice((-3, 0, 10))
    if offset < 0:
        return
    subject.is_starting_anew = True
    log.truncate_fully_and_start_at(offset, now_ms=story.clock.now_ms)
    story.say(f"    everything goes, the log starts at offset {offset}")
    if _is_on_the_disk(story, subject):
        model.start_anew(offset)
        model.durable = offset
        subject.is_starting_anew = False


def delete_records(story: Story, subject: Subject, rng: random.Random) -> None:
    log, model = story.log_of(subject), subject.model
    offset = rng.randrange(model.start, model.high_watermark + 1)
    log.increase_log_start(offset)
    model.start = max(model.start, offset)
    story.say(f"    below offset {offset}")
    subject.is_removing = True
    log.delete_old_segments(story.clock.now_ms)
    subject.is_removing = False
    if len(log.segments) > 1:
        require(log.segments[1].base_offset > model.start, "a segment below the log start stayed")


def _retention(story: Story, subject: Subject, **settings: object) -> None:
    """With other settings for a moment. What went was allowed to go, and what stayed had to stay."""
    log, model = story.log_of(subject), subject.model
    config = log.config
    before = list(log.segments)
    sizes = [segment.size_bytes for segment in before]
    newest = [
        story.memory.status(segment.log.path).modified_ms
        if segment.largest_timestamp() < 0
        else segment.largest_timestamp()
        for segment in before
    ]
    ends = [segment.base_offset for segment in before[1:]] + [model.end]
    log.update_config(msgspec.structs.replace(config, delete=True, **settings))
    retention_ms, retention_bytes = log.config.retention_ms, log.config.retention_bytes
    expected = 0
    left = sum(sizes)
    for number, end in enumerate(ends):
        is_last = number == len(ends) - 1
        old = 0 <= retention_ms < story.clock.now_ms - newest[number]
        large = 0 <= retention_bytes <= left - sizes[number]
        below = end <= model.start and not is_last
        if end > model.high_watermark or (is_last and not sizes[number]) or not (old or large or below):
            break
        left -= sizes[number]
        expected += 1
    subject.is_removing = True
    try:
        gone = log.delete_old_segments(story.clock.now_ms)
        subject.is_removing = False
    finally:
        if not story.files.is_dead:
            log.update_config(config)
    require(gone == expected, "another number of segments went", log=gone, model=expected)
    if expected:
        model.start = max(model.start, ends[expected - 1])
    story.say(f"    {gone} segments go, the log starts at {model.start}")


def retention_by_time(story: Story, subject: Subject, rng: random.Random) -> None:
    _retention(story, subject, retention_ms=rng.choice((0, 60_000, 3_600_000)), retention_bytes=-1)


def retention_by_size(story: Story, subject: Subject, rng: random.Random) -> None:
    _retention(story, subject, retention_bytes=rng.choice((0, 500, 2000)), retention_ms=-1)


def compact(story: Story, subject: Subject, rng: random.Random) -> None:
    """A pass over one log, if it is compacted and has something to clean."""
    log, model, cleaner = story.log_of(subject), subject.model, story.host.cleaner
    if not log.config.compact or any(each.may_return for each in story.subjects.values()):
        return
    if rng.random() < 0.6:
        log.roll(story.clock.now_ms)
    if rng.random() < 0.6:
        log.update_high_watermark(model.end)
        model.high_watermark = model.end
    cleaner.set_aside.clear()
    cleaner.settings = msgspec.structs.replace(cleaner.settings, enabled=True)
    for _ in range(rng.choice((1, 1, 3))):
        if not _one_pass(story):
            break
    cleaner.settings = msgspec.structs.replace(cleaner.settings, enabled=False)


def _one_pass(story: Story) -> bool:
    """Over the log that needs it most; whether there was one that ended well."""
    cleaner = story.host.cleaner
    present = [each for each in story.subjects.values() if each.key in story.host.logs]
    for each in present:
        each.is_compacting = story.log_of(each).config.compact
    before = cleaner.statistics.passes
    cleaner.look()
    is_sure = story.files.plan is None or not story.files.plan.struck
    for each in present:
        if each.key not in story.host.logs:
            continue  # half swapped: the next start puts it right
        log, cleaned_to = story.log_of(each), cleaner.first_dirty.get(each.key)
        accept_compaction(log, each.model, story.clock.now_ms, cleaned_to if is_sure else None)
        each.is_compacting = False
    is_done = cleaner.statistics.passes > before
    story.counts["passes"] += is_done
    story.say("    a pass" if is_done else "    no pass")
    return is_done


def alter_the_config(story: Story, subject: Subject, rng: random.Random) -> None:
    config, what = changed(story.configs[subject.key], rng)
    story.configs[subject.key] = config
    story.log_of(subject).update_config(config)
    story.say(f"    {what}")


def hold_a_slice(story: Story, subject: Subject, rng: random.Random) -> None:
    log, model = story.log_of(subject), subject.model
    if model.end > model.start:
        found = log.read(rng.randrange(model.start, model.end), max_bytes=300)
        if found is not None:
            found.retain()
            story.slices.append(found)


def let_slices_go(story: Story, subject: Subject, rng: random.Random) -> None:
    for each in story.slices:
        each.release()
    story.slices.clear()


def time_goes_by(story: Story, subject: Subject, rng: random.Random) -> None:
    story.clock.now_ms += rng.choice((10, 30_000, 120_000, 7_200_000))


def end_in_order(story: Story, subject: Subject, rng: random.Random) -> None:
    story.end_in_order(rng)


def kill(story: Story, subject: Subject, rng: random.Random) -> None:
    story._die(rng, with_power=False)


def cut_the_power(story: Story, subject: Subject, rng: random.Random) -> None:
    story._die(rng, with_power=True)


def delete_the_topic(story: Story, subject: Subject, rng: random.Random) -> None:
    """And a new one of the same name, at once."""
    if not isinstance(story.host, NodeHost):
        return
    subject.is_deleting = True
    story.host.delete(subject.key)
    if story.host.directories and not story.host.manager.directories:
        return
    story._create(subject)
    plan = story.files.plan
    if not (plan and plan.struck):
        subject.is_deleting = False


DOING: Final = MappingProxyType(
    {
        "append": append,
        "append idempotent": append_idempotent,
        "append in a transaction": append_in_a_transaction,
        "end a transaction": end_a_transaction,
        "append several at once": append_several_at_once,
        "copy from a leader": copy_from_a_leader,
        "send again": send_again,
        "send nonsense": send_nonsense,
        "raise the high watermark": raise_the_high_watermark,
        "new leader": new_leader,
        "roll": roll,
        "truncate": truncate,
        "truncate fully": truncate_fully,
        "delete records": delete_records,
        "retention by time": retention_by_time,
        "retention by size": retention_by_size,
        "compact": compact,
        "alter the config": alter_the_config,
        "flush": flush,
        "background_tasks": background_tasks,
        "housekeeping": housekeeping,
        "hold a slice": hold_a_slice,
        "let slices go": let_slices_go,
        "time goes by": time_goes_by,
        "end in order": end_in_order,
        "kill": kill,
        "cut the power": cut_the_power,
        "delete the topic": delete_the_topic,
    }
)
