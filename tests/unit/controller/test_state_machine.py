"""Images over time: decisions see the newest, everybody else the committed."""

from __future__ import annotations

from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.replayer import MetadataBatch
from controller.state_machine import ImageTimeline
from protocol.codec.message import Message
from protocol.metadata_log.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
)


def config(name: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=name, value="1")


def batch(base: int, *records: Message) -> MetadataBatch:
    return MetadataBatch(base, base + len(records) - 1, 1, 0, records)


def names(image: ClusterImage) -> list[str]:
    return sorted(image.configs.of(4, ""))


class Watched:
    """A timeline and what it told."""

    def __init__(self) -> None:
        self.shown: list[list[str]] = []
        self.answers: list[str] = []
        self.timeline = ImageTimeline(self._show)

    def _show(self, image: ClusterImage, delta: ImageDelta) -> None:
        assert delta.configs is not None
        self.shown.append(names(image))

    def wait(self, name: str) -> None:
        self.timeline.when_committed(
            lambda: self.answers.append(f"{name} committed"), lambda: self.answers.append(f"{name} lost")
        )


def test_decisions_see_what_is_appended_and_others_what_is_committed() -> None:
    watched = Watched()
    timeline = watched.timeline
    first, second = batch(0, config("a")), batch(1, config("b"))
    timeline.append(first)
    watched.wait("first")
    timeline.append(second)
    watched.wait("second")
    assert (names(timeline.newest), names(timeline.committed)) == (["a", "b"], [])
    timeline.commit(first)
    assert (names(timeline.newest), names(timeline.committed)) == (["a", "b"], ["a"])
    assert watched.answers == ["first committed"]
    timeline.commit(second)
    assert watched.answers == ["first committed", "second committed"]
    assert watched.shown == [["a"], ["a", "b"]]
    watched.wait("third")
    assert watched.answers[-1] == "third committed", "nothing is left to wait for"


def test_a_lost_leadership_forgets_what_was_not_committed() -> None:
    watched = Watched()
    timeline = watched.timeline
    timeline.append(batch(0, config("a")))
    timeline.commit(batch(0, config("a")))
    timeline.append(batch(1, config("lost")))
    watched.wait("lost")
    timeline.revert()
    assert names(timeline.newest) == names(timeline.committed) == ["a"]
    assert watched.answers == ["lost lost"]
    timeline.commit(batch(1, config("theirs")))
    assert names(timeline.committed) == ["a", "theirs"]


def test_an_inherited_transaction_is_aborted_and_its_records_never_show() -> None:
    watched = Watched()
    timeline = watched.timeline
    timeline.commit(batch(0, BeginTransactionRecord(), config("half")))
    assert timeline.in_transaction
    assert names(timeline.committed) == []
    timeline.append(batch(2, AbortTransactionRecord()))
    timeline.append(batch(3, config("mine")))
    timeline.revert()
    assert timeline.in_transaction, "the abort was lost with the leadership"
    timeline.commit(batch(2, AbortTransactionRecord()))
    timeline.commit(batch(3, BeginTransactionRecord(), config("whole"), EndTransactionRecord()))
    assert names(timeline.committed) == ["whole"]
    assert not timeline.in_transaction


def test_a_transaction_of_which_a_part_was_committed_goes_on_under_the_next_leader() -> None:
    first = batch(0, config("before"), BeginTransactionRecord(), config("a"))
    second, third = batch(3, config("b")), batch(4, config("c"), EndTransactionRecord())
    follower, leader = Watched().timeline, Watched().timeline
    leader.append(first)
    leader.append(second)
    leader.append(batch(4, AbortTransactionRecord()))
    leader.commit(first)
    leader.commit(second)
    leader.revert()
    assert names(leader.newest) == ["before"]
    leader.append(batch(4, AbortTransactionRecord()))
    leader.revert()
    leader.commit(third)
    for each in (first, second, third):
        follower.commit(each)
    assert names(leader.committed) == names(follower.committed) == ["a", "b", "before", "c"]
    assert leader.committed == follower.committed
