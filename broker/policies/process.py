"""The process that runs the policies, as the controller sees it.

::

    (none) ──start──▶ READY ──judge──▶ ASKED ──answer──▶ READY
                        ▲                │
                        └─── a new one ◀─┴── too late, or gone: everything asked is refused

One batch of questions is under way at a time, the rest waits in order. At the start the policies must load,
or the broker does not start; a process that dies later is replaced when the next question comes. Nothing
passes a policy that cannot be asked: the answer is UNKNOWN_SERVER_ERROR then.

Questions are small and the socket is non-blocking; only `start` and `close` wait, when no loop runs.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from config.broker_config import BrokerConfig
from controller.subjects.policy_questions import PolicyQuestion, Verdict
from controller.subjects.result import ControllerError
from protocol.errors import ErrorCode

__all__ = ["PolicyNotLoaded", "PolicyProcess", "configured_policies"]

LOAD_SECONDS: Final = 10.0
"""Time for the policies to be imported and configured."""

VERDICT_SECONDS: Final = 5.0
"""Time for one batch of questions; a policy is meant to look at names and numbers, not to call anybody."""

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""A longer answer is a fault of the process."""

_RUNNER: Final = Path(__file__).with_name("runner.py")
_ROOT: Final = Path(__file__).resolve().parents[2]
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


def configured_policies(loop: AbstractEventLoop, config: BrokerConfig) -> PolicyProcess | None:
    """The policies that the configs name, loaded; None if they name none. Raises PolicyNotLoaded."""
    names = {kind: name for kind, key in CONFIGS if (name := config.optional_text(key))}
    if not names:
        return None
    policies = PolicyProcess(loop, names, config.with_prefix(""))
    policies.start()
    return policies


class PolicyProcess:
    """`controller.policies.Policies`."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        names: Mapping[str, str],
        configs: Mapping[str, str],
        *,
        verdict_seconds: float = VERDICT_SECONDS,
    ) -> None:
        """names: of the classes, by kind (`create`, `alter`). configs: what they are configured with.
        verdict_seconds: time for one batch of questions."""
        self._verdict_seconds = verdict_seconds
        self._loop = loop
        self._names = dict(names)
        self._order = _line({"policies": self._names, "configs": dict(configs)})
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._received = bytearray()
        self._unsent = bytearray()
        self._batches: deque[_Batch] = deque()
        self._is_loading = False
        self._asked: _Batch | None = None
        self._timer: TimerHandle | None = None

    @property
    def judges_topics(self) -> bool:
        return "create" in self._names

    @property
    def judges_configs(self) -> bool:
        return "alter" in self._names

    # Its life

    def start(self) -> None:
        """Blocks until the policies are loaded. Raises PolicyNotLoaded."""
        channel = self._spawn()
        channel.settimeout(LOAD_SECONDS)
        try:
            channel.sendall(self._order)
            while b"\n" not in self._received:
                data = channel.recv(65536)
                if not data:
                    raise PolicyNotLoaded(f"{self._description}: the process ended as it loaded them")
                self._received += data
        except TimeoutError:
            self._end()
            raise PolicyNotLoaded(f"{self._description}: not loaded within {LOAD_SECONDS:.0f} s") from None
        except OSError as error:
            self._end()
            raise PolicyNotLoaded(f"{self._description}: {error}") from error
        failure = json.loads(self._take_line())["failure"]
        if failure is not None:
            self._end()
            raise PolicyNotLoaded(f"{self._description}: {failure}")
        self._listen(channel)

    @property
    def _description(self) -> str:
        named = ", ".join(f"{key}={self._names[kind]}" for kind, key in CONFIGS if kind in self._names)
        return f"The policies cannot be used ({named})"

    def _spawn(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_RUNNER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                env=_environment(),
                start_new_session=True,
            )
        self._channel = ours
        self._received.clear()
        self._unsent.clear()
        return ours

    def _listen(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._loop.add_reader(channel.fileno(), self._readable)

    def close(self) -> None:
        """After the loop has ended: the policies are closed, and the process goes."""
        channel, process = self._channel, self._process
        if channel is None or process is None:
            return
        channel.close()
        self._channel = None
        try:
            process.wait(VERDICT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _end(self) -> None:
        """Kills a process that is of no use any more."""
        channel, process = self._channel, self._process
        self._channel = self._process = None
        if channel is not None:
            self._loop.remove_reader(channel.fileno())
            self._loop.remove_writer(channel.fileno())
            channel.close()
        if process is not None:
            process.kill()
            process.wait()

    # Asking

    def judge(
        self, questions: Sequence[PolicyQuestion], on_verdicts: Callable[[Sequence[Verdict]], None]
    ) -> None:
        """See `controller.policies.Policies`."""
        self._batches.append(_Batch(questions, on_verdicts))
        self._ask_next()

    def _ask_next(self) -> None:
        if self._asked is not None or not self._batches:
            return
        self._asked = self._batches.popleft()
        if self._channel is None:
            _log.warning("The policies' process is started again")
            self._listen(self._spawn())
            self._is_loading = True
            self._send(self._order)
        self._timer = self._loop.call_later(self._verdict_seconds, self._failed, "it took too long")
        self._send(_line(msgspec.to_builtins(list(self._asked.questions))))

    def _send(self, data: bytes) -> None:
        self._unsent += data
        self._writable()

    def _writable(self) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            sent = channel.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._unsent.clear()  # its end is read, too
            return
        del self._unsent[:sent]
        if self._unsent:
            self._loop.add_writer(channel.fileno(), self._writable)
        else:
            self._loop.remove_writer(channel.fileno())

    def _readable(self) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            data = channel.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        if not data or len(self._received) > ANSWER_BYTES_MAX:
            self._failed("it ended")
            return
        while b"\n" in self._received and self._channel is channel:
            self._answered(self._take_line())

    def _take_line(self) -> bytes:
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received[:] = rest
        return line

    def _answered(self, line: bytes) -> None:
        answer = json.loads(line)
        if self._is_loading:
            self._is_loading = False
            if answer["failure"] is not None:
                self._failed(answer["failure"])
            return
        if self._asked is not None:
            self._settle([_verdict(each) for each in answer])

    def _failed(self, reason: str) -> None:
        """The process is of no use any more."""
        _log.error("The policies gave no verdict: %s", reason)
        self._is_loading = False
        self._end()
        if self._asked is not None:
            self._settle([_no_verdict()] * len(self._asked.questions))

    def _settle(self, verdicts: Sequence[Verdict]) -> None:
        asked, self._asked = self._asked, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if asked is not None:
            asked.on_verdicts(verdicts)
        self._ask_next()


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _verdict(answer: list[str | None] | None) -> Verdict:
    if answer is None:
        return None
    kind, text = answer
    if kind == "violation":
        return ControllerError(ErrorCode.POLICY_VIOLATION, text or "")
    _log.error("A policy failed: %s", text)
    return _no_verdict()


def _no_verdict() -> ControllerError:
    return ControllerError(ErrorCode.UNKNOWN_SERVER_ERROR, "")


def _environment() -> dict[str, str]:
    """Ours without our own folder on the path, where a clone may have it."""
    environment = dict(os.environ)
    folders = environment.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [folder for folder in folders if folder and Path(folder).resolve() != _ROOT]
    if kept:
        environment["PYTHONPATH"] = os.pathsep.join(kept)
    return environment
