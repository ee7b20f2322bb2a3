"""What consoles and other people's tools ask: programs of other languages, run against both brokers.

The Go program uses kadm (Redpanda Console's library), the JavaScript one kafkajs; between them they make
every call that the web consoles make on one node without security: Metadata, DescribeCluster,
DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, DescribeLogDirs, AlterReplicaLogDirs, ListOffsets
with all its specs, DescribeProducers, ListGroups, DescribeGroups, OffsetFetch, OffsetCommit, OffsetDelete,
DeleteGroups, CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, ElectLeaders,
AlterPartitionReassignments, ListPartitionReassignments, Fetch and Produce. kafkatop watches groups and lag.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.genuine.fetched import fetch_with, fetched

SUPPORT: Final = Path(__file__).resolve().parents[1] / "support"
KAFKATOP: Final = (
    "kafkatop==1.16", "humanize==4.17.0", "rich==15.0.0", "readchar==4.2.2", "markdown-it-py==4.3.0",
    "mdurl==0.1.2", "pygments==2.21.0",
)  # fmt: skip
Command = Callable[[str], list[str]]
"""The command line for a broker's address."""


def go_console() -> Command:
    sources = [SUPPORT / "go" / name for name in ("go.mod", "go.sum", "main.go")]

    def build(folder: Path) -> None:
        environment = os.environ | {"CGO_ENABLED": "0"}
        program = str(folder / "console")
        # Without optimisation the build takes half as long.
        fetch_with(
            ["go", "build", "-C", str(SUPPORT / "go"), "-gcflags=all=-N -l", "-o", program],
            folder,
            environment,
        )

    built = fetched(f"console-go-{_checksum(sources)}", build)
    return lambda address: [str(built / "console"), address]


def js_console() -> Command:
    sources = [SUPPORT / "node" / name for name in ("package.json", "package-lock.json", "console.js")]

    def install(folder: Path) -> None:
        for each in sources:
            shutil.copy(each, folder)
        fetch_with(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], folder)

    installed = fetched(f"console-js-{_checksum(sources)}", install)
    return lambda address: ["node", str(installed / "console.js"), address]


def kafkatop(*arguments: str) -> Callable[[], Command]:
    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        fetch_with([*pip, "--target", str(folder), *KAFKATOP], folder)

    def command() -> Command:
        installed = fetched("kafkatop-1.16", install)
        program = f"import sys; sys.path.insert(0, {str(installed)!r}); from kafkatop import main; main()"
        return lambda address: [sys.executable, "-c", program, "--kafka-broker", address, *arguments]

    return command


CONSOLES: Final[dict[str, Callable[[], Command]]] = {
    "kadm (Go)": go_console,
    "kafkajs": js_console,
    "kafkatop: summary": kafkatop("--summary-json", "--all"),
    "kafkatop: topics": kafkatop("--topicinfo-parts", "--text"),
    "kafkatop: status": kafkatop("--status", "--all"),
}


def _checksum(files: list[Path]) -> str:
    return f"{zlib.crc32(b''.join(each.read_bytes() for each in files)):08x}"


def asked(command: list[str]) -> str:
    """What the program printed, JSON with sorted names; a program that fails shows what it said of it."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        return f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    if done.stdout.lstrip().startswith("{"):
        return f"exit 0\n{json.dumps(json.loads(done.stdout), indent=1, sort_keys=True)}"
    return f"exit 0\n{done.stdout}"
