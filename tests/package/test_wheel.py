"""The wheel in a stranger's environment: beside PyPI's ``config``, where he has a config.py of his own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.brokers.broker_process import ROOT, BarnabasProcess
from tests.support.clients.librdkafka import create_topic, fill, settings, take, texts
from tests.support.genuine.kafka_jars import not_here

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FOREIGN: Final = ["config==0.5.1", "pytest"]
"""What PyPI has under the names of our packages, and what the stranger tests with."""


def stranger_s_environment() -> dict[str, str]:
    """Our own source tree is not on its path."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*command: str | Path, cwd: Path) -> str:
    """A command's output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env=stranger_s_environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    build = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(target), str(ROOT)],
        cwd=target, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if "Could not find a version" in build.stdout + build.stderr:
        not_here("the wheel needs hatchling, and no package index can be reached")
    assert build.returncode == 0, build.stdout + build.stderr
    (found,) = target.glob("barnabas-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel and the foreign packages."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, *FOREIGN, cwd=folder)
    return folder / "bin"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Somebody's project, which has a config.py and a storage.py and a broker.py."""
    for name in ("config", "storage", "broker", "protocol"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('the stranger has his own {name}.py')\n")
    return tmp_path


class InstalledBarnabas(BarnabasProcess):
    """The console script, started where the stranger works."""

    def __init__(self, bin_: Path, cwd: Path) -> None:
        super().__init__(cwd / "data")
        self._working_directory = cwd
        self._bin = bin_

    def _program(self) -> list[str]:
        return [str(self._bin / "barnabas")]

    def _environment(self) -> dict[str, str]:
        return stranger_s_environment()


def test_nothing_of_ours_lies_about_in_site_packages(installed: Path) -> None:
    listed = run(installed / "python", "-m", "pip", "show", "--files", "barnabas", cwd=installed)
    files = [line.strip() for line in listed.partition("Files:")[2].splitlines() if line.strip()]
    roots = {file.split("/")[0] for file in files}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"..", "barnabas"}
    assert [file for file in files if file.startswith("..")] == ["../../../bin/barnabas"]
    assert not any("tests/" in file or "spark_jobs" in file for file in files)


def test_the_stranger_s_config_stays_his(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import config; print(config.__file__)", cwd=tmp_path)
    assert "site-packages/config" in where
    assert "barnabas" not in where
    own = run(installed / "python", "-c", "import barnabas, config; print(config.__file__)", cwd=tmp_path)
    assert own == where


def test_version_and_help(installed: Path, elsewhere: Path) -> None:
    told = run(installed / "barnabas", "--version", cwd=elsewhere)
    assert told.startswith("barnabas 0.")
    assert run(installed / "python", "-m", "barnabas", "--version", cwd=elsewhere) == told
    assert "start" in run(installed / "barnabas", "--help", cwd=elsewhere)
    uuid = run(installed / "barnabas", "storage", "random-uuid", cwd=elsewhere).strip()
    assert len(uuid) == 22


def test_it_serves_and_stops(installed: Path, elsewhere: Path) -> None:
    with InstalledBarnabas(installed, elsewhere) as broker:
        create_topic(broker.bootstrap_servers, "first")
        fill(broker.bootstrap_servers, "first", ["Countdown gestartet"], partition=0, compression_type="zstd")
        reader = Consumer(settings(broker.bootstrap_servers, group_id="one"))
        reader.assign([TopicPartition("first", 0, 0)])
        assert texts(take(reader, 1)) == ["Countdown gestartet"]
        reader.close()
        assert broker.stop() == 0
    assert (elsewhere / "data" / "first-0" / f"{0:020}.log").stat().st_size > 0


def test_several_nodes_of_one_command(installed: Path, elsewhere: Path) -> None:
    """Each is a process of its own, in which our packages are found and the stranger's are not."""
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    command = [str(installed / "barnabas"), "start", "--nodes", "2", "--override", "barnabas.admin.listener="]
    with open(elsewhere / "log", "wb") as log:
        nodes = subprocess.Popen(
            [*command, "--override", listeners, "--override", "log.dirs=data"],
            cwd=elsewhere, env=stranger_s_environment(), stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert nodes.stdout is not None
        line = nodes.stdout.readline()
        told = (elsewhere / "log").read_text()
        assert line.startswith("Barnabas is ready: 2 nodes serve 127.0.0.1:"), told
        create_topic(line.split()[-1], "first")
        nodes.terminate()
        assert nodes.wait(120) == 0
    finally:
        nodes.kill()
        nodes.wait()


EMBEDDED: Final = """
import sys
from barnabas import Broker, TopicRefused
with Broker({"num.partitions": 2}) as kafka:
    made = kafka.create_topic("flights", -1)
    print(made, sorted(path.name for path in kafka.data_directory.glob("flights-*")))
    ours = ("broker", "config", "protocol", "uvloop")
    print(sorted(name for name in sys.modules if name.split(".")[0] in ours))
"""


def test_a_broker_in_the_stranger_s_program(installed: Path, elsewhere: Path) -> None:
    (elsewhere / "program.py").write_text(EMBEDDED)
    first, second = run(installed / "python", "program.py", cwd=elsewhere).splitlines()
    assert first == "flights ['flights-0', 'flights-1']"
    assert second == "[]", "nothing of ours is imported into his process"


def test_fixtures_in_the_stranger_s_tests(installed: Path, elsewhere: Path) -> None:
    """The plug-in is found by its entry point, and its options are in pytest's help."""
    (elsewhere / "test_his.py").write_text(
        "def test_his(barnabas_broker, barnabas_topic):\n"
        "    assert (barnabas_broker.data_directory / f'{barnabas_topic}-0').is_dir()\n"
    )
    assert "1 passed" in run(installed / "python", "-m", "pytest", "-q", "test_his.py", cwd=elsewhere)
    told = run(installed / "python", "-m", "pytest", "--help", cwd=elsewhere)
    assert "--barnabas-log={failed,always,never}" in told
    assert "barnabas_topic_partitions (string):" in told
