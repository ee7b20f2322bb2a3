"""The process that runs the policies, as the controller sees it.

::

    (none) ──start──▶ READY ──judge──▶ ASKED ──answer──▶ READY
                        ▲                │
                        └─── a new one ◀─┴── too late, or gone: everything asked is refused

One batch of questions is under way at a time, the rest waits in order. The broker does not start if the
policies cannot be loaded; a process that dies later is replaced when the next question comes. When
the policies cannot be asked every question is refused with UNKNOWN_SERVER_ERROR.

Calls block, so they are made by a helper thread; only `start` and `close` wait, when no loop runs.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from broker.ports.surroundings import Surroundings
from config.broker_config import BrokerConfig
from config.ports import ChildProcess, Offload
from controller.metadata.policies import PolicyQuestion, PolicyRefusal, Verdict
from protocol.errors import ErrorCode
from storage.jobs import JobFailed

__all__ = ["PolicyNotLoaded", "PolicyProcess", "configured_policies"]

LOAD_SECONDS: Final = 10.0
"""Time for the policies to be imported and configured."""

VERDICT_SECONDS: Final = 5.0
"""Time for one batch of questions; a policy is meant to look at names and numbers, not to call anybody."""

ENDING_SECONDS: Final = 5.0
"""The time that the policies may take to close when the broker stops."""

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""A longer answer is a fault of the process."""

_COMMAND: Final = (sys.executable, "-P", str(Path(__file__).with_name("runner.py")))
_log = logging.getLogger("barnabas.policies")

CONFIGS: Final = (
    ("create", "create.topic.policy.class.name"),
    ("alter", "alter.config.policy.class.name"),
)


class PolicyNotLoaded(Exception):
    """A policy cannot be used; the text is one line for the operator."""


class _Batch(NamedTuple):
    questions: Sequence[PolicyQuestion]
    on_verdicts: Callable[[Sequence[Verdict]], None]


def configured_policies(surroundings: Surroundings, config: BrokerConfig) -> PolicyProcess | None:
    """The policies that the configs name, loaded; None if they name none. Raises PolicyNotLoaded."""
    names = {kind: name for kind, key in CONFIGS if (name := config.optional_text(key))}
    if not names:
        return None
    policies = PolicyProcess(
        surroundings.start_process, surroundings.threads.policies, names, config.with_prefix("")
    )
    policies.start()
    return policies


class PolicyProcess:
    """`controller.metadata.policies.Policies`."""

    def __init__(
        self,
        start_process: Callable[[Sequence[str]], ChildProcess],
        threads: Offload,
        names: Mapping[str, str],
        configs: Mapping[str, str],
        *,
        verdict_seconds: float = VERDICT_SECONDS,
    ) -> None:
        """threads: waits for the process. names: of the classes, by kind (`create`, `alter`).
        configs: what they are configured with. verdict_seconds: time for one batch of questions."""
        self._start_process = start_process
        self._threads = threads
        self._names = dict(names)
        self._order = json.dumps({"policies": self._names, "configs": dict(configs)}).encode()
        self._verdict_seconds = verdict_seconds
        self._process: ChildProcess | None = None
        self._batches: deque[_Batch] = deque()
        self._asked: _Batch | None = None

    @property
    def judges_topics(self) -> bool:
        return "create" in self._names

    @property
    def judges_configs(self) -> bool:
        return "alter" in self._names

    # Its life

    def start(self) -> None:
        """Blocks until the policies are loaded. Raises PolicyNotLoaded."""
        try:
            self._process = self._loaded()
        except (JobFailed, OSError) as failure:
            raise PolicyNotLoaded(f"{self._description}: {failure}") from failure

    @property
    def _description(self) -> str:
        named = ", ".join(f"{key}={self._names[kind]}" for kind, key in CONFIGS if kind in self._names)
        return f"The policies cannot be used ({named})"

    def _loaded(self) -> ChildProcess:
        """A new process that has loaded the policies. Blocks. Raises JobFailed, OSError."""
        process = self._start_process(_COMMAND)
        try:
            process.call(self._order, _tell, timeout_seconds=LOAD_SECONDS)
        except JobFailed:
            process.end()
            raise
        return process

    def close(self) -> None:
        """Ends the process after it has closed the policies. It is killed while it works on a question,
        because nobody waits for the verdict any more. Called after the loop has ended."""
        process = self._process
        if process is None:
            return
        if self._asked is not None:
            process.kill()  # the helper thread that waits for it ends it
        else:
            process.end()

    # Asking

    def judge(
        self, questions: Sequence[PolicyQuestion], on_verdicts: Callable[[Sequence[Verdict]], None]
    ) -> None:
        """See `controller.metadata.policies.Policies`."""
        self._batches.append(_Batch(questions, on_verdicts))
        self._ask_next()

    def _ask_next(self) -> None:
        if self._asked is not None or not self._batches:
            return
        self._asked = self._batches.popleft()
        question = json.dumps(msgspec.to_builtins(list(self._asked.questions))).encode()
        self._threads.submit(partial(self._ask, question), self._answered)

    def _ask(self, questions: bytes) -> bytes:
        """Asks the process, in the helper thread. A process that has died is replaced. Raises JobFailed and
        OSError."""
        process = self._process
        if process is None or not process.is_alive:
            _log.warning("The policies' process is started again")
            process = self._process = self._loaded()
        try:
            return process.call(questions, _tell, timeout_seconds=self._verdict_seconds)
        except JobFailed:
            self._process = None
            process.end()
            raise

    def _answered(self, answer: bytes | BaseException) -> None:
        asked, self._asked = self._asked, None
        if asked is None:
            return
        if isinstance(answer, bytes):
            verdicts = [_verdict(each) for each in json.loads(answer)]
        elif isinstance(answer, JobFailed | OSError):
            _log.error("The policies gave no verdict: %s", answer)
            verdicts = [_no_verdict()] * len(asked.questions)
        else:
            raise answer
        asked.on_verdicts(verdicts)
        self._ask_next()


def _tell(line: str) -> None:
    _log.info("%s", line)


def _verdict(answer: list[str | None] | None) -> Verdict:
    if answer is None:
        return None
    kind, text = answer
    if kind == "violation":
        return PolicyRefusal(ErrorCode.POLICY_VIOLATION, text or "")
    _log.error("A policy failed: %s", text)
    return _no_verdict()


def _no_verdict() -> PolicyRefusal:
    return PolicyRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, "")
