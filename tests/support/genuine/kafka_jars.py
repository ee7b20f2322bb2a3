"""Finds the jars of Apache Kafka 4.3.1, or fetches them once with Maven.

Looked for in this order: the folder named by ``BARNABAS_KAFKA_JARS``; the
checkout's ``.cache/kafka-4.3.1``; Maven Central (about ten seconds, 128 MB).
What needs Java skips on a machine without it, with one line that says so, and
fails where ``BARNABAS_REQUIRE_JAVA=1`` is set, as CI does, and `.ci/run` where
Java and Maven are there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

import pytest

KAFKA_VERSION: Final = "4.3.1"
ROOT: Final = Path(__file__).resolve().parents[3]
POM_DIRECTORY: Final = Path(__file__).parents[1] / "kafka"
LOG4J_CONFIG: Final = POM_DIRECTORY / "log4j2.yaml"


def missing(what: str) -> NoReturn:
    """Skip the test for want of ``what``: Java, or what Maven fetches. Fail it where Java is required."""
    if os.environ.get("BARNABAS_REQUIRE_JAVA") == "1":
        pytest.fail(f"{what} (BARNABAS_REQUIRE_JAVA=1 makes this an error)", pytrace=False)
    pytest.skip(what)


def not_here(what: str) -> NoReturn:
    """Skip the test for want of something that Java and Maven do not bring: another program, a package index.
    On CI, where all is installed, fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} (on CI this is an error)", pytrace=False)
    pytest.skip(what)


@cache
def kafka_jars() -> Path:
    """The folder with the genuine jars; skips or fails the test if it can't be had."""
    if shutil.which("java") is None:
        missing("Java is not on the PATH: install a JDK 17 to run the tests against genuine Kafka")
    named = os.environ.get("BARNABAS_KAFKA_JARS")
    if named:
        return Path(named)
    return maven_folder(POM_DIRECTORY / "pom.xml", f"kafka-{KAFKA_VERSION}")


def maven_folder(pom: Path, name: str) -> Path:
    """The jars that ``pom`` names, copied once into ``.cache/<name>``."""
    target = ROOT / ".cache" / name
    target.parent.mkdir(exist_ok=True)
    with open(target.with_name(target.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _copy_dependencies(pom, target)
    return target


def _copy_dependencies(pom: Path, target: Path) -> None:
    if shutil.which("mvn") is None:
        missing("Maven is not on the PATH: install it, or name a folder of jars in BARNABAS_KAFKA_JARS")
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [
        "mvn",
        "-q",
        "-B",
        "-U",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={partial}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        missing(f"Maven could not fetch {target.name}: {done.stdout.strip()[-400:]}")
    partial.rename(target)


def archive_file() -> Path:
    """Where `class_archive` puts Kafka's classes in the form in which Java starts fastest."""
    return ROOT / ".cache" / f"kafka-{KAFKA_VERSION}.jsa"


def java_command(
    class_name: str, *arguments: str, heap: str = "256m", extra: tuple[str, ...] = ()
) -> list[str]:
    """The command line that runs one class of genuine Kafka, with what makes a short life cheap: the first
    compiler only, the simplest collector, and the archive of classes if it was made."""
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    if archive_file().exists():
        flags += [f"-XX:SharedArchiveFile={archive_file()}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return _command(class_name, arguments, heap, (*flags, *extra))


def measured_java_command(class_name: str, *arguments: str, heap: str, flags: tuple[str, ...]) -> list[str]:
    """The same as a user runs it, with these flags of its own start script."""
    return _command(class_name, arguments, heap, flags)


def _command(class_name: str, arguments: Sequence[str], heap: str, flags: Sequence[str]) -> list[str]:
    logging = f"-Dlog4j2.configurationFile={LOG4J_CONFIG}"
    return ["java", f"-Xmx{heap}", *flags, logging, "-cp", f"{kafka_jars()}/*", class_name, *arguments]
