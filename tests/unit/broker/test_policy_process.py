"""The process of the policies: loading, verdicts in order, and what becomes of questions that it does not
answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from broker.policies import process
from broker.policies.process import PolicyNotLoaded, PolicyProcess
from broker.ports.offload import ThreadOffload
from broker.workers.child_process import ChildProcess
from controller.metadata.policies import ConfigQuestion, PolicyQuestion, TopicQuestion, Verdict
from protocol.errors import ErrorCode

RULES = """
import time

class PolicyViolation(Exception):
    pass

class Create:
    def validate(self, request):
        if request.topic == "sleep":
            time.sleep(60)
        if request.topic == "exit":
            raise SystemExit(1)
        if request.topic.startswith("no"):
            raise PolicyViolation(request.topic * request.num_partitions)

class Alter:
    def configure(self, configs):
        self.forbidden = configs["forbidden"]

    def validate(self, request):
        if self.forbidden in request.configs:
            raise PolicyViolation(f"{request.resource_type} {request.resource_name} {request.configs}")

class Slow:
    def __init__(self):
        raise RuntimeError("never made")
    def validate(self, request):
        pass

class NoPolicy:
    pass
"""

Make = Callable[..., PolicyProcess]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def make(loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    (tmp_path / "rules.py").write_text(RULES)
    monkeypatch.setattr(process, "LOAD_SECONDS", 120.0)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}")
    made: list[PolicyProcess] = []
    threads = ThreadOffload(loop, 1)

    def make(*, verdict_seconds: float = 30, **names: str) -> PolicyProcess:
        policies = PolicyProcess(
            partial(ChildProcess, name="process"),
            threads,
            names,
            {"forbidden": "retention.ms"},
            verdict_seconds=verdict_seconds,
        )
        made.append(policies)
        policies.start()
        return policies

    yield make
    for each in made:
        each.close()
    threads.close()


def topic(name: str, partitions: int = 1) -> TopicQuestion:
    return TopicQuestion(name, partitions, 1, None, ())


def verdicts(
    loop: asyncio.AbstractEventLoop, policies: PolicyProcess, *batches: Sequence[PolicyQuestion]
) -> list[list[tuple[int, str] | None]]:
    """The verdicts of each batch, all asked at once, in the order in which they came."""
    came: list[list[tuple[int, str] | None]] = []

    def arrived(found: Sequence[Verdict]) -> None:
        came.append([None if each is None else (each.code, each.message) for each in found])
        if len(came) == len(batches):
            loop.stop()

    for batch in batches:
        policies.judge(batch, arrived)
    loop.run_forever()
    return came


def test_verdicts_come_in_order(loop: asyncio.AbstractEventLoop, make: Make) -> None:
    policies = make(create="rules:Create")
    assert (policies.judges_topics, policies.judges_configs) == (True, False)
    asked = ConfigQuestion("TOPIC", "t", (("retention.ms", "1"),))
    assert verdicts(loop, policies, [topic("yes"), topic("no", 2)], [asked], [topic("non")]) == [
        [None, (ErrorCode.POLICY_VIOLATION, "nono")],
        [None],
        [(ErrorCode.POLICY_VIOLATION, "non")],
    ]


def test_configs_are_told_and_judged(loop: asyncio.AbstractEventLoop, make: Make) -> None:
    policies = make(alter="rules:Alter")
    good = ConfigQuestion("BROKER", "", (("segment.bytes", "7"),))
    bad = ConfigQuestion("TOPIC", "t", (("retention.ms", None),))
    assert verdicts(loop, policies, [good, bad, topic("no")]) == [
        [None, (ErrorCode.POLICY_VIOLATION, "TOPIC t {'retention.ms': None}"), None]
    ]


def test_more_than_a_pipe_holds(loop: asyncio.AbstractEventLoop, make: Make) -> None:
    policies = make(create="rules:Create")
    many = [topic(f"no-{number}-{'x' * 200}") for number in range(5_000)]
    (answers,) = verdicts(loop, policies, many)
    assert [None if each is None else each[1] for each in answers] == [each.topic for each in many]


def test_who_takes_too_long_is_replaced(
    loop: asyncio.AbstractEventLoop, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = make(create="rules:Create", verdict_seconds=1.5)
    answered = policies._answered

    def no_hurry_any_more(answer: bytes | BaseException) -> None:
        policies._verdict_seconds = 120
        answered(answer)

    monkeypatch.setattr(policies, "_answered", no_hurry_any_more)
    nothing = (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert verdicts(loop, policies, [topic("yes"), topic("sleep")], [topic("no")]) == [
        [nothing, nothing],
        [(ErrorCode.POLICY_VIOLATION, "no")],
    ]


def test_who_ends_is_replaced(loop: asyncio.AbstractEventLoop, make: Make) -> None:
    policies = make(create="rules:Create")
    assert verdicts(loop, policies, [topic("exit")], [topic("yes")]) == [
        [(ErrorCode.UNKNOWN_SERVER_ERROR, "")],
        [None],
    ]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere:Create", "ModuleNotFoundError: No module named 'nowhere'"),
        ("controller.policies:Policies", "ModuleNotFoundError: No module named 'controller'"),
        ("rules:Missing", "AttributeError: module 'rules' has no attribute 'Missing'"),
        ("rules:NoPolicy", "TypeError: rules:NoPolicy has no method validate"),
        ("rules:Slow", "RuntimeError: never made"),
        ("com.example.Policy", "'com.example.Policy' is no entry point of the group barnabas.policies"),
    ],
)
def test_what_cannot_be_loaded_is_named(make: Make, name: str, sentence: str) -> None:
    with pytest.raises(PolicyNotLoaded, match=r"create\.topic\.policy\.class\.name=") as refused:
        make(create=name)
    assert sentence in str(refused.value)
