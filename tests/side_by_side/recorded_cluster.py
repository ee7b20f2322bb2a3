"""What a genuine cluster of three answered to the cases of `of_clusters`, recorded: three such brokers would
cost each run half a minute. After a change of the cases

    python -m tests.side_by_side.recorded_cluster

starts a genuine cluster, asks it again and writes the answers to `genuine_cluster.jsonl`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.side_by_side.cluster_side import ClusterSide, new_cluster
from tests.side_by_side.of_clusters import SUBJECTS
from tests.support.brokers.cluster import KAFKAS
from tests.support.genuine.tool_server import ToolServer, compile_java

CORPUS: Final = Path(__file__).with_name("genuine_cluster.jsonl")
CASES: Final = {f"{subject}: {case.name}": case for subject, cases in SUBJECTS.items() for case in cases}
PATIENCE_SECONDS: Final = 60
"""For all answers of a cluster that are not settled, together: a test that fails does not take long."""
POLL_SECONDS: Final = 0.1


@contextmanager
def cluster_side(kind: str, folder: Path) -> Iterator[ClusterSide]:
    """A cluster that runs, with tools of its own."""
    (folder / "files").mkdir()
    classpath = compile_java("ToolServer", folder, "AdminCall")
    with ToolServer(folder, classpath) as tools, new_cluster(kind, folder, tools) as cluster:
        cluster.format().start().await_brokers()
        side = ClusterSide(cluster, tools, folder / "files")
        try:
            yield side
        finally:
            side.close()


def ask(side: ClusterSide, is_settled: Callable[[str, str], bool]) -> None:
    """All cases. What only asks, or waits for something, is asked until it is settled, for changes reach a
    broker a little later.

    is_settled: of the case's key and its answer.
    """
    patience = PATIENCE_SECONDS
    for key, case in CASES.items():
        began = time.monotonic()
        while True:
            answer = side.answer(key, case)
            if not (case.only_asks or case.until) or (case.until in answer and is_settled(key, answer)):
                break
            if time.monotonic() - began > patience:
                patience = 0
                break
            time.sleep(POLL_SECONDS)


def recorded() -> dict[str, str]:
    """Kafka's answers by case."""
    return dict(json.loads(line) for line in CORPUS.read_text().splitlines())


def record() -> None:
    with tempfile.TemporaryDirectory() as folder, cluster_side(KAFKAS, Path(folder)) as side:
        ask(side, lambda *_: True)
        answers = side.answers
    unsettled = [key for key, case in CASES.items() if case.until not in answers[key]]
    if unsettled:
        told = "\n".join(f"== {key}, until {CASES[key].until!r}\n{answers[key]}" for key in unsettled)
        raise SystemExit(f"Nothing was recorded, for these cases never came to what they wait for:\n{told}")
    print("\n".join(f"== {key}\n{answer}" for key, answer in answers.items()))
    CORPUS.write_text("".join(json.dumps(each) + "\n" for each in answers.items()))


if __name__ == "__main__":
    record()
