"""Asks Apache Kafka's own classes: what they make of our bytes, and what they say of errors.

One JVM run answers a whole corpus; the small programs beside this file are compiled when they are wanted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.genuine.kafka_jars import kafka_jars, missing


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
    lines = "".join(f"{name} {version} {encoded.hex()}\n" for name, version, encoded in questions)
    return [_verdict(line) for line in _run("MessageOracle", lines)]


def error_codes() -> list[list[str]]:
    """Code, name, retriable, refreshes metadata and message of every error code of Apache Kafka."""
    return [line.split("\t") for line in _run("ErrorOracle", "")]


def decisions(questions: Iterable[dict[str, Any]]) -> list[Any]:
    """What Kafka's controller decides: `{"change": …}` for a change of a partition (the record's JSON, or
    None), `{"place": …}` for a placement. The fields are those of ElectionOracle."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    answers = _run("ElectionOracle", lines, "org.apache.kafka.controller.ElectionOracle")
    return [json.loads(line) for line in answers]


def assignments(groups: Iterable[dict[str, Any]]) -> list[dict[str, dict[str, list[int]]]]:
    """What Kafka's assignors give the members of consumer groups: by member id, the partitions by topic. The
    fields are those of AssignorOracle; ids of topics are 32 hexadecimal digits."""
    lines = "".join(json.dumps(group) + "\n" for group in groups)
    answers = _run("AssignorOracle", lines, "org.apache.kafka.coordinator.group.assignor.AssignorOracle")
    return [json.loads(line) for line in answers]


def group_hashes(groups: Iterable[list[dict[str, Any]]]) -> list[int]:
    """Kafka's hash of the topics that a group subscribes: `id` in Kafka's letters, `name`, and `racks`, for
    each partition those of its replicas."""
    lines = "".join(json.dumps(topics) + "\n" for topics in groups)
    answers = _run("GroupHashOracle", lines, "org.apache.kafka.coordinator.group.GroupHashOracle")
    return [int(line) for line in answers]


def transaction_answers(questions: Iterable[dict[str, Any]]) -> list[Any]:
    """What Kafka's transaction coordinator answers, and what it knows of the id then; see
    TransactionOracle."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    answers = _run("TransactionOracle", lines, "kafka.coordinator.transaction.TransactionOracle")
    return [json.loads(line) for line in answers]


def _run(name: str, text: str, class_name: str = "") -> list[str]:
    """Compile and run one of the programs beside this file; the lines that it prints."""
    classpath = f"{kafka_jars()}/*"
    if shutil.which("javac") is None:
        missing("javac is not on the PATH: install a JDK 17 to ask genuine Kafka's classes")
    source = Path(__file__).with_name(f"{name}.java")
    with tempfile.TemporaryDirectory() as folder:
        compile_ = ["javac", "-cp", classpath, "-d", folder, str(source)]
        subprocess.run(compile_, check=True, capture_output=True, timeout=300)
        run = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{folder}:{classpath}"]
        run.append(class_name or name)
        done = subprocess.run(run, input=text.encode(), capture_output=True, timeout=500, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.stdout.decode().split("\n")[:-1]


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
