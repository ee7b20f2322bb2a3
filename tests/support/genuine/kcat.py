"""kcat, the command line client on librdkafka that Debian and Ubuntu package."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any, NamedTuple

from tests.support.genuine.kafka_jars import not_here


class KcatResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What ``-J`` printed, one object a message."""
        return [json.loads(line) for line in self.out.splitlines()]


def kcat(broker: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 120) -> KcatResult:
    """One call; skips or fails the test where there is no kcat, by the rule of `kafka_jars.not_here`."""
    program = shutil.which("kcat")
    if program is None:
        not_here("kcat is not on the PATH: apt install kcat")
    done = subprocess.run(
        [program, "-b", broker, *arguments],
        input=stdin, capture_output=True, timeout=timeout_seconds, check=False,
    )  # fmt: skip
    return KcatResult(done.returncode, done.stdout.decode(), done.stderr.decode())
