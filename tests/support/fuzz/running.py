"""A fuzz from start to end: a broker of its own, requests, commits beside them, failing disks, the verdict.

python -m tests.hostile.fuzz --seed 1 --seconds 600
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from controller.metadata.topic_names import METADATA_TOPIC
from protocol.codec.message import Message, Struct
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_quorum import DescribeQuorumRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest
from protocol.registry import ApiKey, api
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.raw_connection import RawConnection, await_that
from tests.support.clients.topics import Topics
from tests.support.clients.wire_client import WireClient
from tests.support.fuzz.broker_log import faults, slow_turns
from tests.support.fuzz.commits import Commits
from tests.support.fuzz.crowd import Crowd
from tests.support.fuzz.knowledge import (
    GROUPS,
    LASTING_TOPICS,
    TRANSACTIONAL_IDS,
    WATCHED_TOPIC,
    Knowledge,
)
from tests.support.fuzz.requests import Made, Offer, RequestMaker
from tests.support.fuzz.verdict import MIB, Verdict
from tests.support.fuzz.watcher import Watcher

_FRAMES_KEPT: Final = 400
_STRUCTS_LOOKED_AT: Final = 3_000
_GROWTH_TOLD: Final = 16 * MIB
_DISK_CHANGES_EVERY: Final = 150
"""Requests after which the second disk is full, and as many after which it has room again."""
_DISK_GONE_AFTER: Final = 0.7
OF_GROUPS: Final = 0
OF_TRANSACTIONS: Final = 1
_FIRST_PRODUCE_VERSION: Final = 3
"""ApiVersions tells of Produce 0 to 2 for librdkafka's sake; they are refused."""


class Plan(NamedTuple):
    """What is run. requests and seconds: whichever is reached first; 0 means no bound."""

    seed: int
    requests: int = 0
    seconds: float = 0.0
    first: int = 0
    """The number of the first request."""
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    largest_bytes: int = 4_000_000
    """No request is larger."""
    disks_fail: bool = False
    commits: bool = True


class FlakyBroker(BarnabasProcess):
    """Has no room for `other` beside its data while `full` is there."""

    def _program(self) -> list[str]:
        self.module = "tests.support.fuzz.flaky_broker"
        return super()._program()

    def _environment(self) -> dict[str, str]:
        folder = self.data.parent
        flaky = {"FLAKY_WHEN": f"{folder}/full", "FLAKY_BELOW": f"{folder}/other"}
        return super()._environment() | flaky


class Fuzz:
    """See the module. `folder`: for the broker's data and for the frames that did harm."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._full = folder / "full"
        made = FlakyBroker if plan.disks_fail else BarnabasProcess
        self._broker = made(folder / "data", self._settings())
        self._world = Knowledge()
        self._unknown: dict[str, Made] = {}
        self._growth: list[str] = []
        self._peak = 0
        self._never_asked: set[tuple[bool, int, int]] = set()
        self._sent: deque[Made] = deque(maxlen=_FRAMES_KEPT)

    def _settings(self) -> dict[str, str]:
        folders = (
            f"{self._folder}/data,{self._folder}/other" if self._plan.disks_fail else f"{self._folder}/data"
        )
        return {
            "log.dirs": folders,
            "metadata.log.dir": f"{self._folder}/data",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "50",
        }

    def run(self) -> Verdict:
        """Until the plan is done or the broker has ended."""
        broker = self._broker.start()
        watcher = commits = None
        try:
            watcher = Watcher(broker.bootstrap_servers, broker.bootstrap_controllers, broker.pid)
            self._furnish()
            crowd = Crowd(
                broker.bootstrap_servers, broker.bootstrap_controllers, self._plan.seed, self._learn
            )
            offers = list(self._offers())
            self._never_asked = {
                (each.is_controller, each.key, version) for each in offers for version in each.versions
            }
            maker = RequestMaker(self._plan.seed, offers, self._world, self._plan.largest_bytes)
            watcher.begin()
            commits = Commits(broker.bootstrap_servers) if self._plan.commits else None
            sent = self._attack(crowd, maker, watcher)
            crowd.close()
            return self._verdict(sent, crowd, commits, watcher)
        finally:
            if broker.process.poll() is None:
                broker.kill()

    # Before

    def _furnish(self) -> None:
        topics = Topics(self._broker.bootstrap_servers)
        for name in LASTING_TOPICS:
            config = {"cleanup.policy": "compact"} if name == "compact" else {}
            topics.create(name, 2, config)
        topics.create(WATCHED_TOPIC)
        with WireClient(self._broker.bootstrap_servers, client_id="furnish") as client:
            for request, version in _first_questions():
                self._world.learn({}, client.ask(request, version))
            await_that("the coordinators are there", lambda: _has_coordinator(client))

    def _offers(self) -> Iterator[Offer]:
        """All that both listeners serve."""
        addresses = (self._broker.bootstrap_servers, False), (self._broker.bootstrap_controllers, True)
        for address, is_controller in addresses:
            with RawConnection(address) as client:
                answer = client.ask_for(ApiVersionsResponse, ApiVersionsRequest("fuzz", "1"), 4)
            for each in answer.api_keys:
                first = max(each.min_version, _FIRST_PRODUCE_VERSION if each.api_key == ApiKey.PRODUCE else 0)
                if self._is_wanted(api(each.api_key).name):
                    yield Offer(is_controller, each.api_key, first, each.max_version)

    def _is_wanted(self, name: str) -> bool:
        return name not in self._plan.without and (not self._plan.only or name in self._plan.only)

    # Meanwhile

    def _attack(self, crowd: Crowd, maker: RequestMaker, watcher: Watcher) -> int:
        plan, process = self._plan, self._broker.process
        ends_at = time.monotonic() + plan.seconds if plan.seconds else float("inf")
        for index in itertools.count() if not plan.requests else range(plan.requests):
            if process.poll() is not None or time.monotonic() > ends_at or watcher.has_given_up:
                break
            made = maker.make(plan.first + index)
            self._sent.append(made)
            self._never_asked.discard((made.is_controller, made.key, made.version))
            self._change_disks(index, ends_at)
            with suppress(OSError):
                crowd.say(made)
            if index % 10 == 0:
                self._look_at_memory(crowd)
        else:
            index = plan.requests
        ends_at = time.monotonic() + 2
        while process.poll() is None and time.monotonic() < ends_at and crowd.outstanding():
            crowd.listen(0.05)
        return index

    def _change_disks(self, index: int, ends_at: float) -> None:
        """The second disk is full and has room in turn; near the end it is gone."""
        if not self._plan.disks_fail:
            return
        other = self._folder / "other"
        near_the_end = (
            index >= _DISK_GONE_AFTER * self._plan.requests
            if self._plan.requests
            else ends_at - time.monotonic() < (1 - _DISK_GONE_AFTER) * self._plan.seconds
        )
        if near_the_end and not other.with_name("away").exists():
            other.rename(other.with_name("away"))
            other.touch()  # a directory that is not there would be made again with the next topic
        if index % (2 * _DISK_CHANGES_EVERY) == _DISK_CHANGES_EVERY:
            self._full.touch()
        elif index % (2 * _DISK_CHANGES_EVERY) == 0:
            self._full.unlink(missing_ok=True)

    def _look_at_memory(self, crowd: Crowd) -> None:
        peak = peak_bytes(self._broker.pid)
        if peak > self._peak + _GROWTH_TOLD:
            near = {made.number: made for made in [*crowd.outstanding(), *list(self._sent)[-10:]]}
            largest = sorted(near.values(), key=lambda made: -len(made.frame))[:4]
            told = "; ".join(map(str, largest))
            self._growth.append(f"{self._peak // MIB} to {peak // MIB} MiB, with {told}")
        self._peak = max(peak, self._peak)

    def _learn(self, made: Made, answer: Message) -> None:
        self._world.learn(made.said, answer)
        name = api(made.key).name
        if name not in self._unknown and has_unknown_error(answer):
            self._unknown[name] = made

    # After

    def _verdict(self, sent: int, crowd: Crowd, commits: Commits | None, watcher: Watcher) -> Verdict:
        if commits is not None:
            commits.stop()
        watched = watcher.stop()
        self._look_at_memory(crowd)
        exit_code = self._broker.process.poll()
        self._keep_frames([made for made, _ in crowd.wrong] + list(self._unknown.values()))
        if exit_code is not None or watched.error:
            self._keep_frames(self._sent)
        log = self._broker.log_file
        return Verdict(
            sent, crowd.answers, exit_code, watched, self._peak, list(faults(log)), list(slow_turns(log)),
            [f"{made}: {why}" for made, why in crowd.wrong],
            {name: str(made) for name, made in self._unknown.items()},
            self._growth, crowd.waited_too_long,
            sorted(f"{api(key).name} {version}" for _, key, version in self._never_asked),
        )  # fmt: skip

    def _keep_frames(self, harmful: Iterable[Made]) -> None:
        """For whoever wants to send them again."""
        frames = self._folder / "frames"
        frames.mkdir(exist_ok=True)
        for made in harmful:
            listener = "controller" if made.is_controller else "broker"
            name = f"{made.number:07d}-{listener}-{api(made.key).name}-{made.version}.frame"
            (frames / name).write_bytes(made.frame)


def _first_questions() -> list[tuple[Message, int]]:
    """What tells the names of all that is there."""
    quorum = DescribeQuorumRequest.TopicData(METADATA_TOPIC, [DescribeQuorumRequest.PartitionData(0)])
    return [
        (MetadataRequest(None), 12),
        (DescribeClusterRequest(), 1),
        (DescribeLogDirsRequest(None), 4),
        (DescribeQuorumRequest([quorum]), 2),
    ]


def _has_coordinator(client: WireClient) -> bool:
    """Of groups and of transactions: their topics are made when they are asked for first."""
    errors = []
    for kind, keys in ((OF_GROUPS, GROUPS), (OF_TRANSACTIONS, TRANSACTIONAL_IDS)):
        wanted = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        found = client.ask_for(FindCoordinatorResponse, wanted, 4)
        errors += [each.error_code for each in found.coordinators]
    return not any(errors)


def peak_bytes(pid: int) -> int:
    """The most memory that a process has ever occupied (VmHWM); 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def has_unknown_error(answer: Message) -> bool:
    """Whether UNKNOWN_SERVER_ERROR stands among the first few thousand structs of an answer."""
    todo: deque[Any] = deque([answer])
    for _ in range(_STRUCTS_LOOKED_AT):
        if not todo:
            return False
        each = todo.popleft()
        if isinstance(each, list):
            todo.extend(each[:_STRUCTS_LOOKED_AT])
        elif isinstance(each, Struct):
            if getattr(each, "error_code", 0) == ErrorCode.UNKNOWN_SERVER_ERROR:
                return True
            fields = (getattr(each, name) for name in each.__struct_fields__)
            todo.extend(value for value in fields if isinstance(value, list | Struct))
    return False
