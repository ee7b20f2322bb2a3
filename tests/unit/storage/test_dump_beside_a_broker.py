"""`barnabas dump` on the files of a broker that runs: it complains of damage alone."""

from __future__ import annotations

import pytest

from storage.dump.dump import DumpOptions, dump_file
from storage.dump.log_file import LogOptions, dump_log
from storage.file_names import segment_file
from tests.support.rigs.log_rig import DIRECTORY, LogRig


def test_a_log_that_grows_meanwhile_has_no_invalid_bytes() -> None:
    rig = LogRig()
    rig.append(bytes(100))
    lines: list[str] = []

    def write(line: str) -> None:
        lines.append(line)
        rig.append(bytes(100))

    dump_log(rig.files.open(f"{DIRECTORY}/{segment_file(0, '.log')}"), LogOptions(), write, lines.append)
    assert [line.partition(" lastOffset")[0] for line in lines] == ["baseOffset: 0"]


@pytest.mark.parametrize("ending", ["", ".deleted", ".swap", ".cleaned", ".swap.deleted"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_on_its_way_is_held_against_the_log_beside_it(suffix: str, ending: str) -> None:
    rig = LogRig()
    rig.configure(index_interval_bytes=200)
    for number in range(10):
        rig.append(bytes(100), timestamp=rig.now_ms + number)
    rig.close()
    for each in (".log", suffix):
        path = f"{DIRECTORY}/{segment_file(0, each)}"
        rig.files.rename(path, path + ending)
    lines: list[str] = []
    complaints: list[str] = []
    dump_file(rig.files, path + ending, DumpOptions(), lines.append, complaints.append)
    assert len(lines) > 3
    assert complaints == []
