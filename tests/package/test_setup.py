"""`.ci/setup`, by which `make run` and `make test` make the virtual environment: which one it keeps.

Programs that answer as `python` does stand for the versions of Python, and for that of an environment.
Nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.brokers.broker_process import ROOT

PYTHON: Final = """\
#!/bin/sh
# Python {version}; with --clear and without ensurepip it leaves what Debian's leaves without python3-venv.
echo "{version} $*" >> "{log}"
case "$*" in
    *"print(*sys.version_info[:2]"*) echo {version} ;;
    "-m venv --clear "*)
        rm -rf "$4"
        mkdir -p "$4/bin"
        cp "$0" "$4/bin/python"
        [ -e "{ensurepip}" ] || exit 1
        touch "$4/bin/pip"
        ;;
    "-m venv "*) exit 2 ;;
    "-m pip install "*)
        cat > /dev/null  # who writes the names of the packages must not find a broken pipe
        [ -e "$(dirname "$0")/pip" ]
        ;;
    "-m pip "*) [ -e "$(dirname "$0")/pip" ] ;;
esac
"""


class Machine:
    """Versions of Python on the path, the first one as `python3` too, and a folder for the environment."""

    def __init__(self, folder: Path, *versions: str) -> None:
        self.venv = folder / "venv"
        self._log = folder / "log"
        self._programs = folder / "bin"
        self._ensurepip = folder / "ensurepip"
        self._programs.mkdir()
        self._ensurepip.touch()
        for name, version in [("python3", versions[0]), *((f"python{each}", each) for each in versions)]:
            program = self._programs / name
            program.write_text(PYTHON.format(version=version, log=self._log, ensurepip=self._ensurepip))
            program.chmod(0o755)

    def without_ensurepip(self) -> None:
        self._ensurepip.unlink()

    def with_ensurepip(self) -> None:
        self._ensurepip.touch()

    def setup(self, python: str = "") -> subprocess.CompletedProcess[str]:
        """As `make run` calls it; python: what the user says with PYTHON=."""
        self._log.unlink(missing_ok=True)
        environment = {
            "PATH": f"{self._programs}:/usr/bin:/bin",
            "VENV": str(self.venv),
            "PYTHON": python,
        }
        command = [str(ROOT / ".ci" / "setup"), "run"]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    @property
    def made(self) -> list[str]:
        """The versions of Python that made an environment, in the last call."""
        lines = self._log.read_text().splitlines()
        return [line.split()[0] for line in lines if " -m venv " in line]

    @property
    def installed(self) -> bool:
        """Whether packages were installed, in the last call."""
        return " -m pip install " in self._log.read_text()


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "3.11", "3.13")
    assert machine.setup().returncode == 0
    assert (machine.made, machine.installed) == (["3.11"], True)
    assert machine.setup().returncode == 0
    assert (machine.made, machine.installed) == ([], False)


def test_one_that_was_broken_off_is_made_anew(tmp_path: Path) -> None:
    """Without python3-venv there is a bin/python, and no pip."""
    machine = Machine(tmp_path, "3.11")
    machine.without_ensurepip()
    for _ in range(2):
        refused = machine.setup()
        assert refused.returncode == 1
        assert refused.stderr.endswith("on Debian and Ubuntu: apt install python3-venv\n")
    assert (machine.venv / "bin" / "python").exists()
    machine.with_ensurepip()
    assert machine.setup().returncode == 0
    assert (machine.made, machine.installed) == (["3.11"], True)


def test_another_version_of_python_is_taken_if_it_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "3.11", "3.13")
    machine.setup()
    assert machine.setup("python3.13").returncode == 0
    assert (machine.made, machine.installed) == (["3.13"], True)
    assert machine.setup("python3.13").returncode == 0
    assert (machine.made, machine.installed) == ([], False)
    assert machine.setup().returncode == 0
    assert (machine.made, machine.installed) == ([], False), "nothing was named: what is there stays"


@pytest.mark.parametrize("target", ["run", "test", "bench", "lint"])
def test_make_names_no_version_that_the_user_has_not_named(target: str) -> None:
    of_make = ("PYTHON", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")  # `make test` sets them for what it runs
    environment = {name: value for name, value in os.environ.items() if name not in of_make}
    for word, told in (((), "PYTHON= .ci/"), (("PYTHON=python3.13",), "PYTHON=python3.13 .ci/")):
        command = ["make", "--dry-run", target, *word]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.startswith(told)
