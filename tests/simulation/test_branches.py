"""What was recorded of branches becomes a report that a person can use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.simulation.branch_report import (
    IMPORTING,
    JsonReport,
    MeasuredFile,
    ModuleBranches,
    branches_of,
    report,
)
from tests.simulation.branches import MEASURED, ROOT, Played, Recording, main, measured_files

SOURCE: Final = '''\
class Log:
    """A log in a test."""

    def append(self, batch):
        """Returns its offset."""
        if batch.is_full:
            if batch.is_empty:
                return -1
            self.roll()
        try:
            self.write(batch)
        except DiskFull:
            self.retry()
        except OSError:
            self.fail()
        return self.end

    @property
    def end(self):
        return self._end

    def truncate(self, offset):
        while self.end > offset:
            self.drop()

    def drop(self):
        pass


def opened(path):
    if path is None:
        return None
    return Log(path)
'''

OF_IMPORT: Final = (1, 4, 18, 19, 22, 26, 30)
OF_ALL: Final = (6, 10, 11, 12, 13, 16, 20, 31, 33)
OF_NONE: Final = (7, 8, 9, 14, 15, 23, 24, 27, 32)


def measured(**changes: object) -> MeasuredFile:
    """Two seeds have appended; the disk was full under the second."""
    both = ["cluster 1 (1 minutes)", "cluster 2 (1 minutes)"]
    contexts = {str(line): [IMPORTING] for line in OF_IMPORT} | {str(line): both for line in OF_ALL}
    contexts |= {"13": both[1:]}
    recorded = {
        "executed_lines": sorted((*OF_IMPORT, *OF_ALL)),
        "missing_lines": OF_NONE,
        "executed_branches": [(6, 10), (31, 33)],
        "missing_branches": [(6, 7), (7, 8), (7, 9), (23, -22), (23, 24), (31, 32)],
        "contexts": contexts,
        "functions": {"of": "no use"},
    }
    text = msgspec.json.encode({"files": {"storage/log.py": recorded | changes}})
    return msgspec.json.decode(text, type=JsonReport).files["storage/log.py"]


@pytest.fixture
def module() -> ModuleBranches:
    return branches_of("storage/log.py", SOURCE, measured())


def test_decisions_that_only_went_one_way_are_listed_with_what_was_not_reached(
    module: ModuleBranches,
) -> None:
    lines = report([module])
    begin = lines.index("storage/log.py Log.append, and 2 behind them")
    assert lines[begin + 1 : begin + 3] == [
        "  storage/log.py:6 -> 7    if batch.is_full:  ->  if batch.is_empty:",
        "  storage/log.py:14 -> 15    except OSError:  ->  self.fail()",
    ]
    assert "  storage/log.py:31 -> 32    if path is None:  ->  return None" in lines
    assert not [line for line in lines if ":7 ->" in line or ":23 ->" in line]


def test_each_except_clause_is_a_decision(module: ModuleBranches) -> None:
    """Reached, not reached, behind something else, or left out as the lines are that it holds."""
    append = next(each for each in module.functions if each.name == "Log.append")
    assert [branch.line for branch in append.reached] == [6, 12]
    assert [branch.line for branch in append.one_way] == [6, 14]
    nobody_wrote = measured(
        executed_lines=[*OF_IMPORT, 6], missing_lines=sorted((*OF_ALL, *OF_NONE)), executed_branches=[]
    )
    append = branches_of("storage/log.py", SOURCE, nobody_wrote).functions[1]
    assert [branch.line for branch in append.behind] == [7, 7, 12, 14]
    excluded = measured(missing_lines=[line for line in OF_NONE if line != 15])
    append = branches_of("storage/log.py", SOURCE, excluded).functions[1]
    assert 14 not in {branch.line for branch in append.one_way}


def test_a_function_is_not_entered_by_its_definition(module: ModuleBranches) -> None:
    lines = report([module])
    assert "storage/log.py Log: truncate (2), drop" in lines
    assert not [line for line in lines if "opened" in line and "storage/log.py opened" not in line]


def test_what_one_seed_alone_has_reached_is_named(module: ModuleBranches) -> None:
    """Of decisions that others have made too. Here the first `except` line was executed by both."""
    lines = report([module])
    begin = lines.index("Reached by one seed alone, though others have made the decision as well:")
    assert lines[begin + 2 :] == [
        "storage/log.py:12 -> 13    except DiskFull:  ->  self.retry()    (cluster 2 (1 minutes))"
    ]


def test_branches_are_counted_by_module_and_package(module: ModuleBranches) -> None:
    other = ModuleBranches("storage/empty.py", [], [], [])
    of_cleaner = branches_of("storage/cleaner/log.py", SOURCE, measured())
    counts = [line.split() for line in report([of_cleaner, other, module])[2:7]]
    assert counts == [
        ["storage", "3", "of", "10", "30", "%"],
        ["log.py", "3", "of", "10", "30", "%"],
        ["storage/cleaner", "3", "of", "10", "30", "%"],
        ["log.py", "3", "of", "10", "30", "%"],
        ["all", "6", "of", "20", "30", "%"],
    ]


def test_a_branch_may_leave_the_function_and_long_lines_are_cut(module: ModuleBranches) -> None:
    truncate = next(each for each in module.functions if each.name == "Log.truncate")
    assert module.shown(truncate.behind[0]) == "storage/log.py:23 -> exit    while self.end > offset:"
    long = ModuleBranches("a.py", ["x" * 61, "y" * 60], [], [])
    shown = long.shown(truncate.behind[0]._replace(line=1, to=2))
    assert shown == f"a.py:1 -> 2    {'x' * 57}...  ->  {'y' * 60}"


def test_a_seed_is_known_by_its_name() -> None:
    played = Played("cluster", 7, "0.5 minutes")
    assert Played.read(str(played)) == played
    assert Played.read(IMPORTING) is None


def test_all_that_is_to_be_measured_is_there() -> None:
    for pattern in MEASURED:
        assert list(ROOT.glob(pattern)), pattern


def test_what_was_recorded_of_another_state_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "recorded"
    data.write_bytes(b"")
    os.utime(data, (1, 1))
    assert main(["--seeds", "0", "--data", str(data)]) == 2
    refused = capsys.readouterr().err
    assert f"{data} was written before " in refused
    assert str(measured_files()[0].relative_to(ROOT)) in refused


def test_simulated_nodes_are_traced(tmp_path: Path) -> None:
    """In an interpreter that has imported nothing of the product before. What was played is known later."""
    data, told = tmp_path / "recorded", tmp_path / "report"
    seeds = ["--seeds", "1", "--minutes", "0.02", "--drivers", "1", "--events", "300"]
    files = ["--data", str(data), "--report", str(told)]
    command = [sys.executable, "-m", "tests.simulation.branches", *seeds, *files]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    assert Recording(data).played == [
        Played("cluster", 1, "0.02 minutes"),
        Played("driver", 1, "300 events"),
    ]
    text = told.read_text()
    assert text.startswith("clusters: 1 seeds from 1 to 1, of 0.02 minutes each\n")
    for package in ("broker/replication", "broker/coordinator/runtime", "controller/subjects", "storage"):
        reached = re.search(rf"^{package} +(\d+) of", text, re.MULTILINE)
        assert reached is not None
        assert int(reached[1]) > 50, package
    never_entered = text.partition("Functions that no seed has entered")[2]
    assert "unregister_broker" in never_entered
    for entered in ("append_as_leader", "append_as_follower", "register_broker"):
        assert any(f"def {entered}(" in path.read_text() for path in measured_files())
        assert not re.search(rf"\b{entered}\b", never_entered)
