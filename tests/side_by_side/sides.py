"""One side: a broker, a JVM for the tools, the Python admin clients, and the answers that came."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from tests.side_by_side.cases import PATIENCE_SECONDS, Case
from tests.side_by_side.normalising import Places, normalised
from tests.side_by_side.showing import shown
from tests.support.broker_process import BarnabasProcess
from tests.support.genuine_kafka import GenuineKafka
from tests.support.tool_server import ToolServer

NO_ADDRESS: Final = "{nowhere}"
"""In a command line: the call is to be made as it stands, without an address."""


class Side:
    """A broker that is asked case after case."""

    def __init__(self, broker: BarnabasProcess | GenuineKafka, tools: ToolServer, folder: Path) -> None:
        self.address = broker.bootstrap_servers
        self.resources = ExitStack()
        self.kept: dict[str, Any] = {}
        """What a step leaves for a later one, such as a consumer."""
        self.answers: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self._tools = tools
        self._folder = folder
        self._places = Places(self.address, broker.bootstrap_controllers, broker.data, folder)
        self._confluent: AdminClient | None = None
        self._kafka_python: KafkaAdminClient | None = None

    @property
    def confluent(self) -> AdminClient:
        if self._confluent is None:
            self._confluent = AdminClient({"bootstrap.servers": self.address})
        return self._confluent

    @property
    def kafka_python(self) -> KafkaAdminClient:
        if self._kafka_python is None:
            self._kafka_python = KafkaAdminClient(bootstrap_servers=self.address)
            self.resources.callback(self._kafka_python.close)
        return self._kafka_python

    def answer_all(self, subject: str, cases: Sequence[Case]) -> None:
        for case in cases:
            began = time.monotonic()
            self.answers[f"{subject}: {case.name}"] = self._answer(case)
            self.seconds[f"{subject}: {case.name}"] = time.monotonic() - began

    def _answer(self, case: Case) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = shown(lambda: case.python(self)) if case.python else self._run(case)  # noqa: B023
            if not case.until or case.until in answer or time.monotonic() > deadline:
                return normalised(answer, self._places, unordered=case.unordered)
            time.sleep(0.1)

    def _run(self, case: Case) -> str:
        for name, text in case.files.items():
            (self._folder / name).write_text(self._places.filled(text))
        words = [self._places.filled(word, case.files) for word in shlex.split(case.line)]
        if not {"{broker}", "{controller}", NO_ADDRESS} & set(shlex.split(case.line)):
            words += ["--bootstrap-server", self.address]
        done = self._tools.run(words[0], *(word for word in words[1:] if word != NO_ADDRESS), stdin=case.stdin)
        return f"exit {done.code}\n{done.out}" + (f"-- error output\n{done.err}" if done.err else "")

    def close(self) -> None:
        self.resources.close()


def answer_side_by_side(sides: Sequence[Side], subjects: Mapping[str, Sequence[Case]]) -> None:
    """Both brokers at once, each in its own order; what went wrong in one is raised here."""
    failures: list[BaseException] = []

    def work(side: Side) -> None:
        try:
            for subject, cases in subjects.items():
                side.answer_all(subject, cases)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(side,)) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure


def slowest(sides: Mapping[str, Side], count: int = 10) -> str:
    """Which cases cost most, for whoever adds one."""
    lines = []
    for name, side in sides.items():
        order = sorted(side.seconds, key=lambda each: -side.seconds[each])[:count]
        lines.append(f"{name}: {sum(side.seconds.values()):.1f} s; " + ", ".join(
            f"{each} {side.seconds[each]:.1f}" for each in order
        ))
    return "\n".join(lines)
