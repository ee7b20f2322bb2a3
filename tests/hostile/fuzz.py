"""Hunts for requests that harm the broker, for as long as one likes, and tells what they did.

    python -m tests.hostile.fuzz --seed 1 --seconds 600
    python -m tests.hostile.fuzz --seed 1 --only JoinGroup SyncGroup --seconds 60
    python -m tests.hostile.fuzz --seed 1 --first 4711 --count 1
    python -m tests.hostile.fuzz --replay DIRECTORY

A seed names the requests and a number one of them. When the broker has ended its last requests lie in a
directory, which `--replay` sends again in their order. `test_fuzz.py` runs the same for a minute.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.raw_connection import RawConnection
from tests.support.fuzz.running import Fuzz, Plan
from tests.support.fuzz.verdict import complaints, told


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--count", type=int, default=0, help="requests to send")
    parser.add_argument("--first", type=int, default=0, help="number of the first request")
    parser.add_argument("--only", nargs="*", default=(), help="names of APIs")
    parser.add_argument("--without", nargs="*", default=(), help="names of APIs")
    parser.add_argument("--largest", type=int, default=4_000_000, help="bytes of a request at most")
    parser.add_argument("--disks", action="store_true", help="a second log directory fails at times")
    parser.add_argument("--no-commits", action="store_true", help="nobody else changes metadata meanwhile")
    parser.add_argument("--folder", type=Path, help="for data, log and frames")
    parser.add_argument("--replay", type=Path, help="a directory with frames of an earlier run")
    return parser.parse_args()


def replay(frames: Path, folder: Path) -> int:
    """The frames again, one connection for each, a little later the broker's state."""
    with BarnabasProcess(folder / "data") as broker:
        for file in sorted(frames.glob("*.frame")):
            is_controller = "-controller-" in file.name
            address = broker.bootstrap_controllers if is_controller else broker.bootstrap_servers
            client = RawConnection(address, timeout_seconds=5)
            client.send_frame(file.read_bytes())
            time.sleep(0.02)
            if broker.process.poll() is not None:
                print(f"{file.name} was the last; exit code {broker.process.returncode}\n{broker.log_tail()}")
                return 1
        time.sleep(3)
        print("the broker lives" if broker.process.poll() is None else broker.log_tail())
        return 0


def main() -> int:
    given = arguments()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="barnabas-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    if given.replay:
        return replay(given.replay, folder)
    plan = Plan(
        given.seed, given.count, given.seconds, given.first, given.only, given.without, given.largest,
        disks_fail=given.disks, commits=not given.no_commits,
    )  # fmt: skip
    print(f"data, log and frames in {folder}", flush=True)
    verdict = Fuzz(plan, folder).run()
    print(told(verdict))
    found = complaints(verdict)
    print("\n".join(["", *found]) if found else "\nall is well")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
