"""Thousands of requests that can be read and mean harm: every API and version of both listeners.

Strings, arrays, numbers and times at and beyond their edges, in requests that otherwise name what is there,
while metadata is committed all the time and, the second time, while a disk is full again and again and then
gone. What is sent comes from a seed; `python -m tests.hostile.fuzz` does the same for as long as one likes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from broker.handlers.table import broker_handlers
from controller.handler_table import controller_handlers
from protocol.framing import decode_request
from protocol.headers import decode_request_header
from protocol.registry import ApiKey, apis
from tests.support.brokers.against import barnabas_only
from tests.support.fuzz.knowledge import Knowledge
from tests.support.fuzz.requests import OF_THE_QUORUM, Offer, RequestMaker
from tests.support.fuzz.running import Fuzz, Plan
from tests.support.fuzz.stories import LONGEST_STORY, STORIES
from tests.support.fuzz.verdict import complaints, long_waits, told
from tests.support.fuzz.watcher import Seen, waited_ns

pytestmark = barnabas_only

REQUESTS: Final = 4_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [Plan(1, requests=REQUESTS), Plan(2, requests=REQUESTS, disks_fail=True)],
    ids=["commits pending", "disks failing"],
)
def test_nobody_else_notices(plan: Plan, tmp_path: Path) -> None:
    for folder in (once := tmp_path / "once", again := tmp_path / "again"):
        folder.mkdir()
    verdict = Fuzz(plan, once).run()
    found = complaints(verdict)
    if found and found == long_waits(verdict):
        # Where other machines share the processors, a second of them may hold little. What our code makes
        # others wait for, it does again with the same requests.
        verdict = Fuzz(plan, again).run()
        found = complaints(verdict)
    if verdict.sent < plan.requests:
        found.append(f"only {verdict.sent} requests were sent")
    elif verdict.never_asked:
        found.append(f"never asked: {', '.join(verdict.never_asked)}")
    if found:
        disks = " --disks" if plan.disks_fail else ""
        command = f"python -m tests.hostile.fuzz --seed {plan.seed} --count {plan.requests}{disks}"
        pytest.fail("\n".join([command, *found, "", told(verdict)]), pytrace=False)


def offers() -> Iterator[Offer]:
    for table, is_controller in ((broker_handlers(), False), (controller_handlers(), True)):
        for each in apis():
            served = table.get(each.key)
            if served is not None:
                first = max(served.min_version, each.versions.first)
                yield Offer(is_controller, each.key, first, served.max_version)


def test_what_is_called_a_request_can_be_read() -> None:
    """So no answer may be missing, and none is missed because the writer wrote something else."""
    maker = RequestMaker(3, offers(), Knowledge(), 20_000)
    readable = 0
    for number in range(2_000):
        made = maker.make(number)
        if made.decodable:
            header, position = decode_request_header(made.frame, 0)
            assert (header.request_api_key, header.request_api_version) == (made.key, made.version)
            decode_request(header, made.frame, position)
            readable += 1
    assert readable > 1_500


def test_the_same_seed_makes_the_same_requests() -> None:
    """But for the moment at which a batch was made."""
    one, two, alone = (RequestMaker(4, offers(), Knowledge(), 2_000) for _ in range(3))
    first = [one.make(number) for number in range(300)]
    second = [two.make(number) for number in range(300)]
    assert [(made.key, made.version) for made in first] == [(made.key, made.version) for made in second]
    frames = [made.frame for made in first if made.key != ApiKey.PRODUCE]
    assert frames == [made.frame for made in second if made.key != ApiKey.PRODUCE]
    number = next(made.number for made in reversed(first) if made.key != ApiKey.PRODUCE)
    assert alone.make(number).frame == first[number].frame


@pytest.mark.parametrize(("seed", "first"), [(1, 0), (2, 0), (3, 0), (4, 0), (4, 4_711)])
def test_every_version_of_every_api_has_its_turn(seed: int, first: int) -> None:
    """And those that make the leader resign have little more, or the node would be without one often."""
    maker = RequestMaker(seed, offers(), Knowledge(), 2_000)
    never_asked = {(each.is_controller, each.key, version) for each in offers() for version in each.versions}
    of_the_quorum = 0
    for number in range(first, first + maker.requests_of_all_turns):
        made = maker.make(number)
        never_asked.discard((made.is_controller, made.key, made.version))
        of_the_quorum += made.key in OF_THE_QUORUM
    assert never_asked == set()
    assert of_the_quorum < maker.requests_of_all_turns / 100


def test_stories_leave_room_for_the_turns() -> None:
    world = Knowledge()
    for story in STORIES:
        assert max(len(story(random.Random(seed), world)) for seed in range(100)) <= LONGEST_STORY, story


def test_the_long_runs_are_long_enough_for_all_turns() -> None:
    assert RequestMaker(1, offers(), Knowledge(), 2_000).requests_of_all_turns <= REQUESTS


def test_only_waiting_for_a_processor_is_forgiven() -> None:
    """The loop waited for 40, two helpers at the same time for 5 and 30, the client for 2; a helper ended."""
    before = Seen(0, {"7": 100, "8": 50, "9": 1_000, "10": 20}, "7", 10)
    after = Seen(3, {"7": 140, "8": 55, "10": 50}, "7", 12)
    assert waited_ns(before, after) == 40 + 30 + 2
