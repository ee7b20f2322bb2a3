"""A judge of histories: what was promised to clients and did not hold, with the evidence.

    python -m broker.simulation.histories.checker HISTORY.jsonl

prints the counts and a story for each anomaly, and ends with 1 if there is any. It knows no cluster, so the
histories of real and of simulated ones come before it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from broker.simulation.histories import record_checks, transaction_checks
from broker.simulation.histories.anomalies import KINDS, Anomaly
from broker.simulation.histories.evidence import Evidence
from broker.simulation.histories.history import History, read_history

__all__ = ["Verdict", "check"]

STORIES_OF_A_KIND: Final = 3


class Verdict:
    """What was found in a history, and in how large a one."""

    def __init__(self, history: History, anomalies: list[Anomaly], counts: Counter[str]) -> None:
        self.history = history
        self.anomalies = anomalies
        self.counts = counts
        self.faults = history.fault_counts()

    @property
    def is_clean(self) -> bool:
        return not self.anomalies

    @property
    def kinds(self) -> set[str]:
        return {each.kind for each in self.anomalies}

    @property
    def line(self) -> str:
        """For people: faults, counts, and how many anomalies of each kind there are."""
        told = [f"{count} x {name}" for name, count in sorted(self.faults.items())]
        told += [f"{count} {name}" for name, count in sorted(self.counts.items())]
        found = Counter(each.kind for each in self.anomalies)
        told += [f"{count} x {kind.upper()}" for kind, count in sorted(found.items())] or ["no anomaly"]
        return ", ".join(told)

    @property
    def stories(self) -> str:
        """A few of each kind."""
        chosen = [
            each
            for kind in KINDS
            for each in [found for found in self.anomalies if found.kind == kind][:STORIES_OF_A_KIND]
        ]
        return "\n".join(each.story(self.history) for each in chosen)


def check(history: History, *, writes_are_isolated: bool = False) -> Verdict:
    """writes_are_isolated: transactions do not write side by side, so that those which lie in different
    orders in different partitions are an anomaly; in Kafka they may."""
    known = Evidence(history)
    anomalies = [
        found for each in (*record_checks.CHECKS, *transaction_checks.CHECKS) for found in each(known)
    ]
    interleaved = list(transaction_checks.interleaved_writes(known))
    if writes_are_isolated:
        anomalies += interleaved
    counts = history.outcome_counts()
    counts["records seen"] = sum(len(reading.sightings) for reading in known.readings)
    counts["readings"] = len(known.readings)
    counts["circles of interleaved writes"] = len(interleaved)
    unclear = [each for each in history.operations if each.outcome == "info" and each.is_transaction]
    counts["unclear transactions seen to be committed"] = sum(known.is_committed(each) for each in unclear)
    return Verdict(history, anomalies, counts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Judges a history.")
    parser.add_argument("history", type=Path)
    parser.add_argument("--writes-are-isolated", action="store_true")
    options = parser.parse_args()
    verdict = check(read_history(options.history), writes_are_isolated=options.writes_are_isolated)
    if not verdict.is_clean:
        print(verdict.stories)
    print(verdict.line)
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
