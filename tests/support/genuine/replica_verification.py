"""kafka-replica-verification, which reports again and again until it is killed."""

from __future__ import annotations

import subprocess
import threading
from typing import Final

from tests.support.genuine.kafka_jars import java_command

LIMIT_SECONDS: Final = 120


def verify_replicas(bootstrap_servers: str, topic: str, wanted: str) -> list[str]:
    """What it printed up to the first line with what is wanted.

    Raises AssertionError if there was no such line in two minutes.
    """
    command = java_command(
        "org.apache.kafka.tools.ReplicaVerificationTool",
        "--broker-list", bootstrap_servers,
        "--topics-include", topic,
        "--report-interval-ms", "200",
    )  # fmt: skip
    told: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tool:
        watchdog = threading.Timer(LIMIT_SECONDS, tool.kill)
        watchdog.start()
        try:
            assert tool.stdout is not None
            for line in tool.stdout:
                told.append(line.strip())
                if wanted in line:
                    return told
        finally:
            watchdog.cancel()
            tool.kill()
    raise AssertionError(f"kafka-replica-verification printed no line with {wanted!r}, but {told}")
