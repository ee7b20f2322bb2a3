"""Which branches of replication, elections and coordinators the seeds reach, and which none has reached.

    python -m tests.simulation.branches --first 1 --seeds 100 --minutes 0.5 --quorums 300 --report x.txt
    python -m tests.simulation.branches --seeds 2000 --data long.branches --report x.txt

The seeds are played in this process, one after the other, while the `coverage` package traces the modules in
`MEASURED`; a traced seed takes three to four times as long, and is the same run to the byte. What was
recorded is kept in the file of `--data`, and a seed that is there already is not played again: so a run that
was broken off goes on where it was. How to read the report: GUIDE.md; what it said: RESULTS.md.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from coverage import Coverage, CoverageException

from tests.simulation.branch_report import IMPORTING, JsonReport, ModuleBranches, branches_of, report

# Nothing of the product is imported here, since it would be before the tracing begins.

ROOT: Final = Path(__file__).resolve().parents[2]

MEASURED: Final = (
    "broker/controller_channel/alter_partition_manager.py",
    "broker/controller_channel/directory_assignments.py",
    "broker/controller_channel/lifecycle.py",
    "broker/controller_channel/producer_ids.py",
    "broker/coordinator/**/*.py",
    "broker/replication/**/*.py",
    "broker/server/followers.py",
    "broker/server/transactions.py",
    "controller/*.py",
    "controller/raft/*.py",
    "controller/subjects/*.py",
    "storage/leader_epochs.py",
    "storage/loaded_producers.py",
    "storage/log_segments.py",
    "storage/partition_log.py",
    "storage/producer_state.py",
    "storage/recovery.py",
    "storage/transaction_index.py",
    "storage/transactions.py",
    "storage/truncation.py",
    "storage/truncation_markers.py",
)
"""Patterns of paths from the root: who decides about replicas, their logs, leaders, groups, transactions."""

KINDS: Final = MappingProxyType(
    {"cluster": "clusters", "driver": "quorums on the driver of production", "quorum": "quorums"}
)
"""Of seeds."""

SAVED_EVERY: Final = 5
"""Seeds."""

_GROWTH: Final = (1, 2, 5)
"""And ten times these, and so on: after so many seeds the branches are counted."""


class Played(NamedTuple):
    """One seed as it is named in the recorded data. kind: of `KINDS`. length: minutes of trouble of a
    cluster, events of a quorum."""

    kind: str
    seed: int
    length: str

    def __str__(self) -> str:
        return f"{self.kind} {self.seed} ({self.length})"

    @classmethod
    def read(cls, text: str) -> Played | None:
        """None where the text is no seed's."""
        found = re.fullmatch(r"(\w+) (\d+) \((.+)\)", text)
        return None if found is None else cls(found[1], int(found[2]), found[3])


def measured_files() -> list[Path]:
    return sorted(path for pattern in MEASURED for path in ROOT.glob(pattern) if path.name != "__init__.py")


class Recording:
    """The seeds that have been played, and the lines that they took, in a file that survives this process.

    Raises ValueError where a measured module has changed since the file was written: its lines are others.
    Raises CoverageException where the file is none of the `coverage` package.
    """

    def __init__(self, data: Path) -> None:
        files = measured_files()
        self._tracer = Coverage(
            data_file=str(data), branch=True, config_file=False, include=[str(each) for each in files]
        )
        if data.exists():
            written = data.stat().st_mtime
            changed = [str(each.relative_to(ROOT)) for each in files if each.stat().st_mtime > written]
            if changed:
                raise ValueError(f"{data} was written before {', '.join(changed)} changed")
            self._tracer.load()
        self._played = {
            played
            for name in self._tracer.get_data().measured_contexts()
            if (played := Played.read(name)) is not None
        }

    @property
    def played(self) -> list[Played]:
        return sorted(self._played)

    def play(self, wanted: Iterable[Played], seconds: float) -> Iterator[tuple[Played, float, str | None]]:
        """Those that are not there yet, until so many seconds are over. Gives each with the seconds of
        processor time that it took, and the rule that it broke or None."""
        end = time.monotonic() + seconds
        self._tracer.start()
        try:
            self._tracer.switch_context(IMPORTING)
            # Here, since the modules' own lines are to be traced as well.
            from broker.simulation.cluster.cluster_running import run_cluster
            from broker.simulation.quorum.running import run

            for each in wanted:
                if each in self._played:
                    continue
                if time.monotonic() > end:
                    break
                began = time.process_time()
                self._tracer.switch_context(str(each))
                length = float(each.length.partition(" ")[0])
                failure = (
                    run_cluster(each.seed, int(length * 60_000)).failure
                    if each.kind == "cluster"
                    else run(each.seed, int(length), real_driver=each.kind == "driver").failure
                )
                self._played.add(each)
                yield each, time.process_time() - began, None if failure is None else failure.text
                if len(self._played) % SAVED_EVERY == 0:
                    self._tracer.save()
        finally:
            self._tracer.stop()
        # Not where a seed was broken off: some of its lines are missing, and it would not be played again.
        self._tracer.get_data().touch_files([str(each) for each in measured_files()])
        self._tracer.save()

    def modules(self, after: Sequence[Played] | None = None) -> list[ModuleBranches]:
        """after: as if these seeds alone had been played."""
        contexts = None if after is None else [f"^{re.escape(str(each))}$" for each in (IMPORTING, *after)]
        with tempfile.NamedTemporaryFile() as written:
            self._tracer.json_report(outfile=written.name, contexts=contexts, show_contexts=after is None)
            measured = msgspec.json.decode(Path(written.name).read_bytes(), type=JsonReport)
        return [
            branches_of(str(path.relative_to(ROOT)), path.read_text(), each)
            for path, each in ((Path(name).resolve(), each) for name, each in measured.files.items())
        ]

    def growth(self) -> list[str]:
        """How many branches the clusters had reached after how many seeds, in the order of their numbers."""
        clusters = [each for each in self.played if each.kind == "cluster"]
        counts = sorted(step * 10**power for step in _GROWTH for power in range(6))
        lines = []
        for count in (count for count in counts if count < len(clusters)):
            reached = sum(each.reached for each in self.modules(clusters[:count]))
            lines.append(f"after {count:>6,} clusters: {reached:>6,} branches")
        return lines

    def summary(self) -> list[str]:
        """Which seeds have been played."""
        lines = []
        for (kind, length), some in groupby(self.played, key=lambda each: (each.kind, each.length)):
            seeds = [each.seed for each in some]
            lines.append(
                f"{KINDS[kind]}: {len(seeds)} seeds from {seeds[0]} to {seeds[-1]}, of {length} each"
            )
        return lines


def wanted_seeds(options: argparse.Namespace) -> Iterator[Played]:
    seeds = range(options.first, options.first + options.seeds)
    yield from (Played("cluster", seed, f"{options.minutes:g} minutes") for seed in seeds)
    for kind, count in (("quorum", options.quorums), ("driver", options.drivers)):
        numbers = range(options.first, options.first + count)
        yield from (Played(kind, seed, f"{options.events} events") for seed in numbers)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every rule held, 1 if one was broken, 2 if what was recorded before is of another state."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=100, help="of whole clusters")
    parser.add_argument("--minutes", type=float, default=0.5, help="simulated, of trouble in each cluster")
    parser.add_argument("--quorums", type=int, default=0, help="seeds of a quorum of controllers alone")
    parser.add_argument("--drivers", type=int, default=0, help="the same on the driver of production")
    parser.add_argument("--events", type=int, default=1_200, help="of each quorum")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no new seed after so long")
    parser.add_argument("--data", type=Path, help="where what was recorded is kept")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            recording = Recording(options.data or Path(temporary) / "branches")
        except (ValueError, CoverageException) as error:
            print(error, file=sys.stderr)
            return 2
        broken = False
        for played, seconds, failure in recording.play(wanted_seeds(options), options.seconds):
            print(f"{played}: {seconds:.1f} s{f', {failure}' if failure else ''}", flush=True)
            broken |= failure is not None
        text = "\n".join([*recording.summary(), "", *recording.growth(), "", *report(recording.modules())])
    if options.report is None:
        print(text)
    else:
        options.report.write_text(f"{text}\n")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
