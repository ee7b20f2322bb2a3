"""Starts that cannot succeed, and commands given wrongly, as a user types them: one line that helps, and an
exit code that a script can act upon."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import ROOT, BarnabasProcess

pytestmark = barnabas_only


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def barnabas(*arguments: str, **environment: str) -> Done:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    done = subprocess.run(
        [sys.executable, "-m", "broker", *arguments],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class Place:
    """A directory for one test's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"

    def properties(self, *lines: str, name: str = "server.properties") -> str:
        """A file of one node on free ports, with more lines behind; line 7 is the first of them."""
        file = self.path / name
        whole = (
            "process.roles=broker,controller",
            "node.id=1",
            "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names=CONTROLLER",
            "controller.quorum.bootstrap.servers=127.0.0.1:0",
            f"log.dirs={self.data}",
            *lines,
        )
        file.write_text("\n".join(whole) + "\n")
        return str(file)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[BarnabasProcess]:
    with BarnabasProcess(tmp_path / "data") as broker:
        yield broker


BAD_VALUES = {
    "num.partitions=zero": ("num.partitions", "zero"),
    "num.partitions=0": ("num.partitions", "0"),
    "log.retention.hours=12h": ("log.retention.hours", "12h"),
    "compression.type=brotli": ("compression.type", "brotli"),
    "auto.create.topics.enable=perhaps": ("auto.create.topics.enable", "perhaps"),
    "log.cleanup.policy=forget": ("log.cleanup.policy", "forget"),
    "socket.request.max.bytes=-1": ("socket.request.max.bytes", "-1"),
    "barnabas.record.validation=some": ("barnabas.record.validation", "some"),
}


@pytest.mark.parametrize("line", BAD_VALUES)
def test_a_bad_value_is_named_with_its_line(place: Place, line: str) -> None:
    key, value = BAD_VALUES[line]
    file = place.properties(line)
    done = barnabas("start", file, "--format")
    assert (done.code, done.out) == (1, "")
    (said,) = done.err.splitlines()
    assert said.startswith("barnabas: ")
    for word in (f"{file} line 7", key, value):
        assert word in said
    assert not place.data.exists()


@pytest.mark.parametrize("override", ["num.partitions=zero", "num.partitions", "=5"])
def test_a_bad_override(place: Place, override: str) -> None:
    done = barnabas("start", "--override", f"log.dirs={place.data}", "--override", override)
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert override.partition("=")[2] in done.err
    assert not place.data.exists()


@pytest.mark.parametrize(
    "line",
    [
        "listeners=nonsense",
        "advertised.listeners=nonsense",
        "barnabas.admin.listener=nonsense",
        "listeners=PLAINTEXT://127.0.0.1:99999,CONTROLLER://127.0.0.1:0",
        "advertised.listeners=PLAINTEXT://h:-1",
    ],
)
def test_a_listener_that_is_none(place: Place, line: str) -> None:
    done = barnabas("start", place.properties(line), "--format")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert line.partition("=")[2] in done.err.replace(", ", ",")
    assert not place.data.exists()


@pytest.mark.parametrize("where", ["no-such-host.invalid:0", "192.0.2.1:0"])
def test_a_listener_where_nobody_can_listen(place: Place, where: str) -> None:
    listeners = f"listeners=PLAINTEXT://{where},CONTROLLER://127.0.0.1:0"
    done = barnabas("start", "--override", f"log.dirs={place.data}", "--override", listeners)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith(f"barnabas: listener PLAINTEXT cannot listen on {where}: ")
    assert "Traceback" not in done.err


def test_a_bad_value_in_the_environment(place: Place) -> None:
    done = barnabas("start", place.properties(), "--format", KAFKA_NUM_PARTITIONS="many")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert "many" in done.err
    assert "KAFKA_NUM_PARTITIONS" in done.err


@pytest.mark.parametrize("content", [b"\xff\xfe\x00bad", b"no separator and \\uZZZZ", b"x" * (2 << 20)])
def test_a_file_that_is_no_configuration(place: Place, content: bytes) -> None:
    file = place.path / "server.properties"
    file.write_bytes(content)
    done = barnabas("start", str(file))
    assert done.code == 1
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("file", ["missing.properties", "."])
def test_a_file_that_cannot_be_read(place: Place, file: str) -> None:
    path = str(place.path / file)
    done = barnabas("start", path)
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert path in done.err


def test_an_unknown_key_warns_and_does_not_stop(place: Place) -> None:
    broker = BarnabasProcess(place.data, {"num.partition": "3", "log.cleaner.threads": "2"})
    with broker:
        said = broker.log_file.read_text()
    assert sum("num.partition" in line for line in said.splitlines()) == 1
    assert "WARN" in said


def test_an_unformatted_directory_with_a_file(place: Place) -> None:
    done = barnabas("start", place.properties())
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert f"No meta.properties found in {place.data}" in done.err
    assert "storage format" in done.err


def test_a_directory_that_is_somebody_elses(place: Place) -> None:
    place.data.mkdir()
    (place.data / "holiday.jpg").write_bytes(b"\xff\xd8")
    done = barnabas("start", place.properties(), "--format")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert str(place.data) in done.err
    assert [file.name for file in place.data.iterdir()] == ["holiday.jpg"]


def test_a_directory_in_use(running: BarnabasProcess) -> None:
    done = barnabas(
        "start", "--override", f"log.dirs={running.data}",
        "--override", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    )  # fmt: skip
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert str(running.data) in done.err
    assert "lock" in done.err.lower()


def test_a_port_that_is_taken(place: Place, running: BarnabasProcess) -> None:
    for listeners in (
        f"PLAINTEXT://127.0.0.1:{running.port},CONTROLLER://127.0.0.1:0",
        f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{running.port}",
    ):
        done = barnabas(
            "start", "--override", f"log.dirs={place.path / 'mine'}", "--override", f"listeners={listeners}"
        )
        said = done.err.splitlines()[-1]
        assert done.code == 1
        assert "Traceback" not in done.err
        assert f"127.0.0.1:{running.port}" in said
        assert "in use" in said


def test_an_admin_port_that_is_taken_costs_only_the_admin_pages(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listener = f"127.0.0.1:{taken.getsockname()[1]}"
        with BarnabasProcess(place.data, {"barnabas.admin.listener": listener}) as broker:
            assert broker.stop() == 0
        assert f"No metrics and health at {listener}" in broker.log_file.read_text()


@pytest.mark.parametrize(
    ("was", "becomes"), [("cluster.id=", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA"), ("node.id=", "node.id=7")]
)
def test_a_directory_of_another_cluster_or_node(place: Place, was: str, becomes: str) -> None:
    """Two directories of one node that say different things, or a node that is not the one of its file."""
    second = place.path / "second"
    file = place.properties(f"log.dirs={place.data},{second}")
    assert barnabas("storage", "format", "-t", "bWVhc3VyZW9mYWxsdGhpbg", "-c", file).code == 0
    properties = second / "meta.properties"
    lines = [becomes if line.startswith(was) else line for line in properties.read_text().splitlines()]
    properties.write_text("\n".join(lines) + "\n")
    done = barnabas("start", file)
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert becomes.partition("=")[2] in done.err


@pytest.mark.parametrize("content", ["", "version=1\n", "version=9\ncluster.id=x\nnode.id=1\n", "\0\0\0"])
def test_meta_properties_that_are_damaged(place: Place, content: str) -> None:
    file = place.properties()
    assert barnabas("storage", "format", "-t", "bWVhc3VyZW9mYWxsdGhpbg", "-c", file).code == 0
    (place.data / "meta.properties").write_text(content)
    done = barnabas("start", file)
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert str(place.data) in done.err


def test_a_log_dir_that_is_a_file(place: Place) -> None:
    place.data.write_text("not a directory")
    done = barnabas("start", place.properties(), "--format")
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert str(place.data) in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_directory_that_may_not_be_written(place: Place) -> None:
    place.data.mkdir(mode=0o500)
    done = barnabas("start", place.properties(), "--format")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert str(place.data) in done.err


def test_a_data_directory_on_a_file_system_that_takes_nothing(place: Place) -> None:
    """For root too: /proc and /sys let nobody make directories."""
    done = barnabas("start", "--override", "log.dirs=/proc/barnabas-data")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "/proc/barnabas-data" in done.err.splitlines()[-1]


@pytest.mark.parametrize("roles", ["controller", "emperor", ""])
def test_roles_that_this_release_does_not_play(place: Place, roles: str) -> None:
    done = barnabas("start", place.properties(f"process.roles={roles}"), "--format")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "process.roles" in done.err


def test_config_check(place: Place) -> None:
    good = barnabas("config", "check", place.properties("num.partitions=3", "num.partition=3"))
    assert good.code == 0
    assert "num.partitions" in good.out
    assert "num.partition" in good.out
    bad = barnabas("config", "check", place.properties("num.partitions=zero"))
    assert bad.code == 1
    assert "zero" in bad.out + bad.err
    missing = barnabas("config", "check", str(place.path / "missing"))
    assert missing.code in (1, 2)
    assert str(place.path / "missing") in missing.out + missing.err


def test_storage_commands(place: Place) -> None:
    uuid = barnabas("storage", "random-uuid")
    assert (uuid.code, len(uuid.out.strip())) == (0, 22)
    file = place.properties()
    unformatted = barnabas("storage", "info", "-c", file)
    assert unformatted.code == 1
    assert str(place.data) in unformatted.out
    assert barnabas("storage", "format", "-t", uuid.out.strip(), "-c", file).code == 0
    again = barnabas("storage", "format", "-t", uuid.out.strip(), "-c", file)
    assert again.code == 1
    assert "already formatted" in again.err
    assert barnabas("storage", "format", "-t", uuid.out.strip(), "-c", file, "-g").code == 0
    info = barnabas("storage", "info", "-c", file)
    assert info.code == 0
    assert f"cluster.id={uuid.out.strip()}" in info.out
    for wrong in (("-t", "short", "-c", file), ("-t", uuid.out.strip(), "-c", str(place.path / "none"))):
        done = barnabas("storage", "format", *wrong)
        assert done.code == 1
        assert "Traceback" not in done.err


def test_codec_show() -> None:
    shown = barnabas("codec", "show", "Fetch", "17")
    assert shown.code == 0
    assert "def " in shown.out
    for wrong in (("Fetch", "99"), ("Nothing", "0"), ("Fetch", "-1")):
        done = barnabas("codec", "show", *wrong)
        assert done.code in (1, 2)
        assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments", [(), ("dance",), ("start", "a", "b"), ("storage",), ("codec", "show", "Fetch", "x")]
)
def test_a_command_line_that_is_none(arguments: tuple[str, ...]) -> None:
    done = barnabas(*arguments)
    assert done.code == 2
    assert "usage: barnabas" in done.err


def test_version_and_help() -> None:
    assert barnabas("--version").out.startswith("barnabas ")
    assert "start" in barnabas("--help").out
