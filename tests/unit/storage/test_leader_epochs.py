"""The list of leaders: what replicas and OffsetForLeaderEpoch ask of it."""

from __future__ import annotations

import pytest

from storage.leader_epochs import LeaderEpochs
from tests.support.rigs.log_rig import LogRig


def three() -> LeaderEpochs:
    return LeaderEpochs([(2, 10), (5, 20), (9, 30)])


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (10, (-1, -1)),
        (9, (9, 44)),
        (8, (5, 30)),
        (5, (5, 30)),
        (4, (2, 20)),
        (2, (2, 20)),
        (1, (1, 10)),
    ],
)
def test_end_offsets(epoch: int, answer: tuple[int, int]) -> None:
    assert three().end_offset_for(epoch, 44) == answer


def test_an_empty_list_knows_nothing() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest_epoch == -1
    assert epochs.end_offset_for(0, 5) == (-1, -1)
    assert epochs.epoch_of(0) == -1


def test_epoch_of_an_offset() -> None:
    epochs = three()
    assert [epochs.epoch_of(offset) for offset in (9, 10, 19, 20, 29, 30, 999)] == [-1, 2, 2, 5, 5, 9, 9]
    assert [epochs.start_offset_of(epoch) for epoch in (2, 9, 3)] == [10, 30, -1]


def test_a_new_leader_replaces_what_contradicts_it() -> None:
    epochs = three()
    epochs.assign(9, 40)
    assert not epochs.changed
    epochs.assign(10, 30)
    assert epochs.entries() == [(2, 10), (5, 20), (10, 30)]
    epochs.assign(6, 25)
    assert epochs.entries() == [(2, 10), (5, 20), (6, 25)]
    epochs.assign(7, 15)
    assert epochs.entries() == [(2, 10), (7, 15)]
    assert (epochs.changed, epochs.latest_epoch) == (True, 7)
    epochs.assign(-1, 50)
    assert epochs.latest_epoch == 7


def test_truncation_at_both_ends() -> None:
    epochs = three()
    epochs.truncate_from_end(31)
    epochs.truncate_from_start(10)
    assert not epochs.changed
    epochs.truncate_from_end(30)
    assert epochs.entries() == [(2, 10), (5, 20)]
    assert epochs.latest_epoch == 5
    epochs.truncate_from_start(25)
    assert epochs.entries() == [(5, 25)]
    epochs.truncate_from_start(1000)
    assert epochs.entries() == [(5, 1000)]
    epochs.clear()
    assert (epochs.entries(), epochs.latest_epoch) == ([], -1)


def test_the_recovery_point_waits_for_leader_epochs_that_could_not_be_written() -> None:
    rig = LogRig()
    rig.append(b"v", epoch=3)
    rig.log.flush()
    epochs, sync = rig.background_tasks.take_due(rig.now_ms)[-2:]
    assert (epochs.path.split("/")[-1], epochs.failed is None) == ("leader-epoch-checkpoint", False)
    if epochs.failed is not None and sync.done is not None:
        epochs.failed()
        sync.done()
    assert rig.log.recovery_point == 0
    rig.log.flush()
    rig.run_background_tasks()
    assert rig.log.recovery_point == 1


def test_an_epoch_without_records_keeps_no_earlier_one_from_being_written() -> None:
    """A broker that followed and then led without a write, and was stopped in order, has no batches scanned
    at its next start: what it wrote as a follower must be in the file."""
    rig = LogRig()
    rig.append(b"as a leader", epoch=0)
    rig.log.flush()
    rig.run_background_tasks()
    rig.append(b"as a follower", epoch=1)
    rig.log.leader_epochs.assign(2, rig.log.log_end_offset)
    rig.log.flush()
    rig.run_background_tasks()
    rig.log.close()
    rig.reopen(is_clean=True)
    assert rig.log.leader_epochs.entries() == [(0, 0), (1, 1)]


def test_an_epoch_without_records_is_not_written() -> None:
    epochs = three()
    assert not epochs.needs_writing(40)
    epochs.assign(10, 40)
    epochs.assign(11, 40)
    assert not epochs.needs_writing(40)
    assert epochs.needs_writing(41)
    epochs.note_writing()
    epochs.assign(12, 41)
    assert not epochs.needs_writing(41)
    epochs.note_failure()
    assert epochs.needs_writing(41)
