"""Makes Apache Kafka start faster: `python -m tests.support.genuine.class_archive`, once on a machine.

Java reads and checks some nine thousand classes at each start of a broker, which takes more processor time
than most tests that start one. An archive of these classes (AppCDS) takes a third of that. It lies beside
the jars; `kafka_jars.java_command` names it where it is, and a Java or a class path that it does not fit
ignores it without a word.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.genuine.genuine_kafka import GenuineKafka
from tests.support.genuine.kafka_jars import archive_file

__all__ = ["make"]


def make() -> Path:
    """Starts a broker, stops it, and keeps which classes it had; does nothing where the archive is."""
    target = archive_file()
    if target.exists():
        return target
    partial = target.with_suffix(".partial")
    with tempfile.TemporaryDirectory(prefix="class-archive-") as folder:
        kafka = GenuineKafka(Path(folder) / "data")
        kafka.format()
        kafka.more_flags = (f"-XX:ArchiveClassesAtExit={partial}",)
        kafka.start()
        kafka.stop()
    partial.rename(target)
    return target


if __name__ == "__main__":
    print(f"Apache Kafka's classes are in {make()}", file=sys.stderr)
