"""Asks Apache Kafka's own message classes what they make of our bytes: one JVM run for a whole corpus."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.kafka_jars import kafka_jars

SOURCE = Path(__file__).with_name("MessageOracle.java")


class Verdict(NamedTuple):
    """What Java said to one encoded message."""

    error: str | None
    bytes_left: int
    encoded: bytes
    """The decoded message, encoded again."""
    encoded_from_json: bytes | None
    """The same, after a way through JSON; None where Kafka has no converter."""
    json: Any


def ask_java(questions: Iterable[tuple[str, int, bytes]]) -> list[Verdict]:
    """`questions` are (message name, version, bytes); the verdicts come in the same order."""
    jars = kafka_jars()
    with tempfile.TemporaryDirectory() as folder:
        classpath = f"{jars}/*"
        subprocess.run(
            ["javac", "-cp", classpath, "-d", folder, str(SOURCE)],
            check=True,
            capture_output=True,
            timeout=120,
        )
        lines = "".join(f"{name} {version} {encoded.hex()}\n" for name, version, encoded in questions)
        done = subprocess.run(
            ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{folder}:{classpath}", "MessageOracle"],
            input=lines.encode(),
            capture_output=True,
            timeout=240,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"the message oracle ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return [_verdict(line) for line in done.stdout.decode().split("\n")[:-1]]


def _verdict(line: str) -> Verdict:
    status, *rest = line.split("\t")
    if status != "ok":
        return Verdict("\t".join(rest), 0, b"", None, None)
    left, encoded, from_json, text = rest
    return Verdict(
        None,
        int(left),
        bytes.fromhex(encoded),
        bytes.fromhex(from_json) if text else None,
        json.loads(text) if text else None,
    )
