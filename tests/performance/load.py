"""A load and the client that puts it on a broker: the C one where there is a compiler, else the Python one.

`client_name` says which; both move the same frames and report the same figures, but the Python client costs
10 to 20 µs a request, as much as a broker, and knows no fetch sessions.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from tests.performance.compiled import compiled


@dataclass
class Load:
    """What to do. Sizes in bytes; ``partitions`` are (topic, topic id in hex, index).

    A fetch reads the topic's batches, each of ``batch_bytes`` with ``records_per_batch``, from the start to
    ``end_offset`` and again. in_session: in a fetch session, one request in flight; without, each request
    stands alone. checks_offsets: every fetch must bring what it asked for; not asked of the pump. ports: of
    the connections in turn, where they do not all go to ``port``.
    """

    kind: str
    port: int
    seconds: float
    partitions: Sequence[tuple[str, str, int]]
    connections: int = 1
    in_flight: int = 5
    request_bytes: int = 16384
    record_bytes: int = 100
    acks: int = -1
    idempotent: bool = False
    producer_id: int = 1
    in_session: bool = False
    end_offset: int = 0
    records_per_batch: int = 0
    batch_bytes: int = 0
    checks_offsets: bool = True
    max_bytes: int = 1 << 62
    ports: Sequence[int] = ()

    def port_of(self, connection: int) -> int:
        return self.ports[connection % len(self.ports)] if self.ports else self.port

    def partitions_of(self, connection: int) -> Sequence[tuple[str, str, int]]:
        """Those that a connection serves in turn: they are dealt out, or shared where there are too few."""
        dealt = self.partitions[connection :: self.connections]
        return dealt or [self.partitions[connection % len(self.partitions)]]


@dataclass
class Outcome:
    """What was done. cpu_seconds: of the client; bytes: acknowledged batches, or answers to fetches."""

    requests: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    latency_us: dict[str, float] = field(default_factory=dict)


def client_name() -> str:
    return "the C client" if compiled("load_client") else "the Python client, for want of a C compiler"


def put(load: Load) -> Outcome:
    """Run the load to its end; raises RuntimeError if an answer was wrong."""
    from tests.performance.load_plan import plan_of

    if compiled("load_client"):
        return run_planned("load_client", plan_of(load), load.seconds)
    command = [sys.executable, "-m", "tests.performance.raw_client", json.dumps(asdict(load))]
    return _outcome_of(command, load.seconds)


def run_planned(name: str, plan: bytes, seconds: float) -> Outcome:
    """Run a C client on its plan; raises RuntimeError if it says no, or where no C compiler is."""
    program = compiled(name)
    if program is None:
        raise RuntimeError(f"{name} wants a C compiler: there is no cc, gcc or clang on the PATH")
    with tempfile.NamedTemporaryFile(prefix="load-plan-") as file:
        file.write(plan)
        file.flush()
        return _outcome_of([str(program), file.name], seconds)


def _outcome_of(command: list[str], seconds: float) -> Outcome:
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return Outcome(**json.loads(done.stdout))
