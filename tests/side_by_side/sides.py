"""One side: a broker, a JVM for the tools, the Python admin clients, and the answers that came."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from tests.side_by_side.cases import Case
from tests.side_by_side.normalising import Places, normalised
from tests.side_by_side.showing import shown
from tests.support.genuine.tool_server import ToolServer

SETTLING_SECONDS: Final = 60
"""How long the first answers that differ are waited for: a broker may stand still on a busy machine."""
IMPATIENT_SECONDS: Final = 3
"""And the others, once that was in vain: a test that fails does not take long."""
PLACES: Final = {"{broker}", "{controller}"}


class Asked(Protocol):
    """A broker, as far as it is asked."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def bootstrap_controllers(self) -> str: ...
    @property
    def data(self) -> Path: ...


class Side:
    """A broker that is asked case after case."""

    def __init__(self, broker: Asked, tools: ToolServer, folder: Path) -> None:
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

    def answer(self, key: str, case: Case) -> str:
        """Ask, and keep the answer under the key; the last one counts."""
        began = time.monotonic()
        python = case.python
        try:
            answer = self._run(case) if python is None else shown(lambda: python(self))
        except Exception as mistake:
            mistake.add_note(f"It was raised by the case '{key}' itself.")
            raise
        self.answers[key] = self.without_randomness(answer, unordered=case.unordered)
        self.seconds[key] = time.monotonic() - began
        return self.answers[key]

    def without_randomness(self, answer: str, *, unordered: bool = False) -> str:
        return normalised(answer, self._places, unordered=unordered)

    def _run(self, case: Case) -> str:
        for name, text in case.files.items():
            (self._folder / name).write_text(self._places.filled(text))
        written = shlex.split(case.line)
        words = [self._places.filled(word, case.files) for word in written]
        if not PLACES & set(written):
            words += ["--bootstrap-server", self.address]
        done = self._tools.run(*words, stdin=case.stdin)
        return f"exit {done.code}\n{done.out}" + (f"-- error output\n{done.err}" if done.err else "")

    def close(self) -> None:
        self.resources.close()


def ask_both(
    kafka: Side, ours: Side, subjects: Mapping[str, Sequence[Case]], different: frozenset[str]
) -> None:
    """Each case to both brokers at once.

    What a call changed reaches a broker a little later. So a case that changes nothing is asked again for
    a while where the answers differ (one of the ``different``: until both say what they are asked for).
    """
    patience = SETTLING_SECONDS
    with ThreadPoolExecutor(2) as threads:
        for subject, cases in subjects.items():
            for case in cases:
                key = f"{subject}: {case.name}"
                deadline = time.monotonic() + patience
                while True:
                    answers = list(threads.map(lambda side: side.answer(key, case), (kafka, ours)))  # noqa: B023
                    are_alike = answers[0] == answers[1] or key in different
                    settled = are_alike and all(case.until in answer for answer in answers)
                    if settled or not case.only_asks:
                        break
                    if time.monotonic() > deadline:
                        patience = IMPATIENT_SECONDS
                        break


def slowest(sides: Mapping[str, Side], count: int = 10) -> str:
    """Which cases cost most, for whoever adds one."""
    lines = []
    for name, side in sides.items():
        order = sorted(side.seconds, key=lambda each: -side.seconds[each])[:count]
        told = ", ".join(f"{each} {side.seconds[each]:.1f}" for each in order)
        lines.append(f"{name}: {sum(side.seconds.values()):.1f} s; {told}")
    return "\n".join(lines)
