"""`Broker` in other people's processes: it serves, tells what went wrong, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import psutil
import pytest
import uvloop
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.launcher.embedded import Broker, BrokerFailed, TopicRefused
from broker.launcher.node_process import NodeProcess
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import ROOT
from tests.support.brokers.ports import free_ports
from tests.support.clients.librdkafka import fill, settings, take, texts

pytestmark = barnabas_only

DOOR: Final = ROOT / "broker" / "launcher" / "door"
LIBRARIES: Final = tuple(
    dict.fromkeys(str(Path(str(each.__file__)).parents[1]) for each in (msgspec, uvloop))
)
WAIT_SECONDS: Final = 90


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def stranger(tmp_path: Path, code: str, *, python: str = sys.executable) -> subprocess.Popen[str]:
    """A program of somebody whose project has files by our packages' names."""
    for name in ("config", "storage", "broker", "protocol", "controller"):
        (tmp_path / f"{name}.py").write_text(f"WHOSE = 'the stranger has his own {name}'\n")
    (tmp_path / "program.py").write_text(code)
    return subprocess.Popen(
        [python, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(DOOR), *LIBRARIES)), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


def messages(address: str, place: TopicPartition, count: int) -> list[str]:
    """The first so many of a partition."""
    reader = Consumer(settings(address, group_id="reader"))
    reader.assign([place])
    try:
        return texts(take(reader, count))
    finally:
        reader.close()


def await_end(pid: int) -> None:
    """The process has gone (or is a zombie that nobody of ours has to wait for)."""
    deadline = time.monotonic() + WAIT_SECONDS
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.02)


def await_absence(folder: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while list(folder.glob("barnabas-*")):
        assert time.monotonic() < deadline, f"left behind: {list(folder.glob('barnabas-*'))}"
        time.sleep(0.02)


def test_it_serves(broker: Broker) -> None:
    topic = broker.create_topic("starts", 3, config={"retention.ms": 60_000})
    fill(broker.bootstrap_servers, topic, ["Countdown", "Liftoff"], partition=2)
    assert messages(broker.bootstrap_servers, TopicPartition(topic, 2, 0), 2) == ["Countdown", "Liftoff"]
    assert broker.listeners == {"PLAINTEXT": broker.bootstrap_servers}
    assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
    assert (broker.data_directory / "starts-2").is_dir()
    assert "Formatting" in broker.log()


def test_topics(broker: Broker) -> None:
    nameless = {broker.create_topic(), broker.create_topic()}
    assert len(nameless) == 2
    known = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=60).topics
    assert nameless <= known.keys()
    broker.create_topic("twice")
    with pytest.raises(TopicRefused, match=r"twice: Topic 'twice' already exists\. \(error code 36\)"):
        broker.create_topic("twice")
    with pytest.raises(TopicRefused, match="Unknown topic config name: colour") as refused:
        broker.create_topic("painted", config={"colour": "blue"})
    assert refused.value.code == 40


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Broker() as broker:
        pid = broker.pid
        (folder,) = tmp_path.iterdir()
        assert broker.log_file.parent == folder
    assert not psutil.pid_exists(pid)
    assert list(tmp_path.iterdir()) == []
    assert not broker.is_running
    broker.stop()
    with pytest.raises(RuntimeError, match="make another one"):
        broker.start()


def test_what_shall_stay_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Broker(keep=True) as broker:
        broker.create_topic("kept")
    assert (broker.data_directory / "kept-0").is_dir()
    assert "Stopped" in broker.log_file.read_text()


def test_data_for_the_next_one(tmp_path: Path) -> None:
    (port,) = free_ports(1)  # that nobody else takes between the two
    with Broker(data=tmp_path / "data", port=port, log=tmp_path / "first.log") as first:
        fill(first.bootstrap_servers, first.create_topic("kept"), ["Liftoff"], partition=0)
    with Broker(data=tmp_path / "data", port=first.port) as second:
        assert second.port == first.port
        assert messages(second.bootstrap_servers, TopicPartition("kept", 0, 0), 1) == ["Liftoff"]
    assert "Stopped" in (tmp_path / "first.log").read_text()


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments say what the broker is; a variable for some other Kafka does not."""
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://192.0.2.1:9092")
    with Broker({"num.partitions": 5, "auto.create.topics.enable": True}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        fill(broker.bootstrap_servers, "by-itself", ["a"], partition=0)
        assert len(admin.list_topics("by-itself", timeout=60).topics["by-itself"].partitions) == 5


def test_a_start_that_fails_shows_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(BrokerFailed, match=r"did not start \(exit code 1\)(?s:.*)num\.partitions=many"):
        Broker({"num.partitions": "many"}).start()
    with Broker() as one, pytest.raises(BrokerFailed, match=rf"did not start(?s:.*){one.port}"):
        Broker(port=one.port).start()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where somebody stops the cell of a notebook, whose process goes on."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    begin, begun = NodeProcess.begin, []

    def interrupted(self: NodeProcess) -> None:
        begin(self)
        begun.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(NodeProcess, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Broker().start()
    assert [node.is_running for node in begun] == [False]
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_takes_too_long() -> None:
    with pytest.raises(BrokerFailed, match=r"was not ready after 0\.001 s"):
        Broker(start_timeout_seconds=0.001).start()


def test_a_failure_within_shows_the_log() -> None:
    with pytest.raises(ValueError, match="a test's own") as raised, Broker():
        raise ValueError("a test's own")
    assert any("The broker's log ended with" in note for note in raised.value.__notes__)
    assert any("Formatting" in note for note in raised.value.__notes__)


def test_a_broker_that_died_is_named() -> None:
    with Broker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        await_end(broker.pid)
        with pytest.raises(BrokerFailed, match=r"has gone \(exit code -9\)"):
            broker.create_topic()
        assert repr(broker).endswith("ended>")


def test_a_broker_that_dies_under_a_call_is_named() -> None:
    """Its connections break before its end can be seen."""
    with Broker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(BrokerFailed, match=r"has gone \(exit code -9\)"):
            broker.create_topic()


def test_from_a_thread_that_ends() -> None:
    """The broker belongs to the process, not to the thread that started it."""
    brokers: list[Broker] = []
    thread = threading.Thread(target=lambda: brokers.append(Broker().start()))
    thread.start()
    thread.join()
    with brokers[0] as broker:
        assert broker.create_topic("after-the-thread") == "after-the-thread"


def test_a_forgotten_broker_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker = Broker().start()
    pid = broker.pid
    del broker
    await_end(pid)
    await_absence(tmp_path)


PROGRAM: Final = """
import sys
import config, storage, broker, protocol, controller
from barnabas import Broker
kafka = Broker().start()
assert 'his own' in config.WHOSE + storage.WHOSE + broker.WHOSE
print(kafka.pid, kafka.create_topic('mine'), flush=True)
"""


def test_beside_a_stranger_s_modules(tmp_path: Path) -> None:
    """Without `with`: the end of the interpreter is the end of the broker."""
    program = stranger(tmp_path, PROGRAM)
    out, err = program.communicate(timeout=120)
    assert program.returncode == 0, err
    pid, topic = out.split()
    assert topic == "mine"
    assert not psutil.pid_exists(int(pid))
    await_absence(tmp_path)


def test_a_parent_that_is_killed_leaves_no_orphan(tmp_path: Path) -> None:
    program = stranger(tmp_path, PROGRAM + "sys.stdin.read()\n")
    assert program.stdout is not None
    pid = int(program.stdout.readline().split()[0])
    program.kill()
    program.communicate()
    await_end(pid)
    await_absence(tmp_path)


def test_what_shall_stay_stays_when_the_program_is_killed(tmp_path: Path) -> None:
    program = stranger(tmp_path, PROGRAM.replace("Broker()", "Broker(keep=True)") + "sys.stdin.read()\n")
    assert program.stdout is not None
    pid = int(program.stdout.readline().split()[0])
    program.kill()
    program.communicate()
    await_end(pid)
    (folder,) = tmp_path.glob("barnabas-*")
    assert (folder / "data" / "mine-0").is_dir()
    assert "Stopped" in (folder / "broker.log").read_text()


def test_what_shall_stay_stays_when_the_start_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log in it says why."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def refused(self: NodeProcess) -> None:
        raise PermissionError("no more processes")

    monkeypatch.setattr(NodeProcess, "begin", refused)
    with pytest.raises(PermissionError):
        Broker(keep=True).start()
    assert len(list(tmp_path.iterdir())) == 1


def test_ctrl_c_ends_both(tmp_path: Path) -> None:
    code = "import time\nfrom barnabas import Broker\nwith Broker() as kafka:\n"
    code += "    print(kafka.pid, flush=True)\n    while True:\n        time.sleep(0.1)\n"
    # One long sleep would be slept to its end if the signal came after Python's last look for signals and
    # before the call of the operating system.
    program = stranger(tmp_path, code)
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    assert os.getpgid(pid) != os.getpgid(program.pid), "a terminal's Ctrl-C reaches the program alone"
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=120)
    assert "KeyboardInterrupt" in err
    assert not psutil.pid_exists(pid)
    await_absence(tmp_path)


def test_a_fork_s_end_is_not_the_broker_s(tmp_path: Path) -> None:
    fork = "import os\nif os.fork():\n    os.wait()\n    kafka.create_topic()\n"
    program = stranger(tmp_path, PROGRAM + fork)
    _, err = program.communicate(timeout=120)
    assert program.returncode == 0, err
    await_absence(tmp_path)


def test_libraries_that_an_isolated_interpreter_does_not_see(tmp_path: Path) -> None:
    """The stranger's interpreter has no packages of its own: he finds them through PYTHONPATH."""
    venv.create(tmp_path / "bare", with_pip=False)
    program = stranger(tmp_path, PROGRAM, python=str(tmp_path / "bare" / "bin" / "python"))
    out, err = program.communicate(timeout=120)
    assert program.returncode == 0, err
    assert out.endswith("mine\n")


def test_in_a_notebook_s_cell() -> None:
    """A loop is running there, and code of a cell is called by it."""

    async def cell() -> str:
        with Broker() as broker:
            return await asyncio.to_thread(broker.create_topic, "from-a-cell")

    assert asyncio.run(cell()) == "from-a-cell"


def test_the_command_line_of_a_clone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "--version"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(DOOR)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("barnabas 0.")
