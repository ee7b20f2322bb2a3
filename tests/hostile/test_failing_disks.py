"""Disks that break under a broker that serves: what the client sees, what the log says, and that nothing
acknowledged elsewhere is lost.

A directory that is renamed away stands for a disk that is gone; a bit is flipped where a disk would; an index
is cut short; the process is killed, or may open few files only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from storage.open_files import bound_for
from tests.hostile.test_full_disk import Writer, numbers_in
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import ROOT, BarnabasProcess
from tests.support.clients.librdkafka import take
from tests.support.clients.raw_connection import RawConnection, serves_others
from tests.support.clients.topics import Topics
from tests.support.clients.wire_client import WireClient

pytestmark = barnabas_only

PATIENCE_SECONDS = 120
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
TOPICS = ("first", "second", "third", "fourth")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[BarnabasProcess]:
    """A broker with two log directories, and two topics in each of them."""
    broker = BarnabasProcess(
        tmp_path / "data",
        {"log.dirs": f"{tmp_path}/data,{tmp_path}/other", "offsets.topic.num.partitions": "2"},
    )
    with broker:
        for name in TOPICS:
            Topics(broker.bootstrap_servers).create(name)
        yield broker


def wait_for(broker: BarnabasProcess, words: str) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if words in (log := broker.log_file.read_text()):
            return log
        time.sleep(0.1)
    pytest.fail(f"{words!r} is not in the log:\n{broker.log_tail()}")


def homes(broker: BarnabasProcess) -> dict[str, str]:
    """In which directory each topic lies, by what is on the disk."""
    return {
        name: folder.name
        for folder in (broker.data, broker.data.parent / "other")
        for name in TOPICS
        if (folder / f"{name}-0").exists()
    }


def written(broker: BarnabasProcess, count: int = 5) -> dict[str, Writer]:
    writers = {name: Writer(name) for name in TOPICS}
    with RawConnection(broker.bootstrap_servers) as client:
        for writer in writers.values():
            writer.burst(client, count)
            assert writer.errors == []
    return writers


def leaders_in(cluster: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.partitions[0].leader_id for topic in cluster.topics}


def test_a_directory_that_is_gone(two: BarnabasProcess) -> None:
    writers = written(two)
    lying = homes(two)
    assert sorted(lying.values()) == ["data", "data", "other", "other"]
    other = two.data.parent / "other"
    away = other.rename(other.with_name("away"))
    log = wait_for(two, "partitions went offline with log directory")
    assert f"Stopping serving logs in dir {other}" in log
    with RawConnection(two.bootstrap_servers) as client:
        for name, writer in writers.items():
            before = len(writer.errors)
            writer.burst(client, 3)
            assert len(writer.errors) - before == (3 if lying[name] == "other" else 0)
            if lying[name] == "data":
                assert numbers_in(client, name) == writer.acknowledged
    with WireClient(two.bootstrap_servers) as client:
        told = client.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest(None), 5)
        errors = {Path(result.log_dir).name: result.error_code for result in told.results}
        assert errors == {"data": 0, "other": STORAGE_ERROR}
        wanted = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name) for name in TOPICS])
        expected = {name: 1 if lying[name] == "data" else -1 for name in TOPICS}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (leaders := leaders_in(client.ask_for(MetadataResponse, wanted, 12))) != expected:
            assert time.monotonic() < deadline, f"the controller did not hear of it: {leaders}"
            time.sleep(0.1)
    Topics(two.bootstrap_servers).create("later")
    assert (two.data / "later-0").exists()
    serves_others(two.bootstrap_servers)
    assert two.stop() == 0
    away.rename(other)
    two.start_anywhere()
    with RawConnection(two.bootstrap_servers) as client:
        for name, writer in writers.items():
            assert numbers_in(client, name) == writer.acknowledged
            writer.burst(client, 2)
            assert numbers_in(client, name) == writer.acknowledged
    assert "Traceback" not in two.log_file.read_text()


def test_topics_of_a_directory_that_is_gone_are_made_anew_in_the_other(two: BarnabasProcess) -> None:
    """Also when the directory comes back with the records of the topics of before."""
    writers = written(two)
    lost = sorted(name for name, home in homes(two).items() if home == "other")
    other = two.data.parent / "other"
    away = other.rename(other.with_name("away"))
    wait_for(two, "partitions went offline with log directory")
    topics = Topics(two.bootstrap_servers)
    with WireClient(two.bootstrap_servers) as client:
        wanted = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name) for name in TOPICS])
        expected = {name: [1] if name in lost else [] for name in TOPICS}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (offline := offline_in(client.ask_for(MetadataResponse, wanted, 12))) != expected:
            assert time.monotonic() < deadline, f"Metadata shows these replicas as offline: {offline}"
            time.sleep(0.1)
        page = DescribeTopicPartitionsRequest(
            [DescribeTopicPartitionsRequest.TopicRequest(n) for n in TOPICS]
        )
        described = client.ask_for(DescribeTopicPartitionsResponse, page, 0)
        assert {t.name: t.partitions[0].offline_replicas for t in described.topics} == expected
    for name in lost:
        topics.delete(name)
        topics.create(name)
        writers[name] = Writer(name)
    with RawConnection(two.bootstrap_servers) as client:
        for name in lost:
            writers[name].burst(client, 2)
            assert (writers[name].errors, writers[name].acknowledged) == ([], [0, 1])
            assert numbers_in(client, name) == [0, 1]
            assert (two.data / f"{name}-0").exists()
    assert two.stop() == 0
    away.rename(other)
    two.start_anywhere()
    with RawConnection(two.bootstrap_servers) as client:
        for name, writer in writers.items():
            assert numbers_in(client, name) == writer.acknowledged
            writer.burst(client, 1)
            assert numbers_in(client, name) == writer.acknowledged
    for name in lost:
        assert (two.data / f"{name}-0").exists()
        assert not (other / f"{name}-0").exists()
        assert list(other.glob(f"{name}-0.*-stray")), "the records of before are for an operator"
    assert "Traceback" not in two.log_file.read_text()


def offline_in(cluster: MetadataResponse) -> dict[str | None, list[int]]:
    return {topic.name: topic.partitions[0].offline_replicas for topic in cluster.topics}


def test_without_the_metadata_log_s_directory_there_is_no_broker(two: BarnabasProcess) -> None:
    two.data.rename(two.data.with_name("away"))
    assert two.process.wait(PATIENCE_SECONDS) == 1
    assert f"Shutdown broker because the metadata log dir {two.data} has failed" in two.log_file.read_text()


def repair(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "broker", "log", "repair", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def killed_after_an_orderly_end(broker: BarnabasProcess) -> None:
    """What was written before has been synced, and the next start reads the last segments all the same."""
    assert broker.stop() == 0
    broker.start_anywhere()
    broker.kill()


def test_a_bit_that_was_flipped_in_the_middle(two: BarnabasProcess) -> None:
    writers = written(two)
    home = two.data.parent / homes(two)["second"] / "second-0"
    killed_after_an_orderly_end(two)
    log_file = home / "00000000000000000000.log"
    with log_file.open("r+b") as file:
        file.seek(25_000)
        byte = file.read(1)[0]
        file.seek(25_000)
        file.write(bytes([byte ^ 4]))
    two.start_anywhere()
    log = two.log_file.read_text()
    assert f"second-0 is offline, its log cannot be opened: {log_file} is damaged" in log
    assert "no valid record batch at byte 20000, where offset 2 should be" in log
    assert "a valid one behind it, at byte 30000 with offset 3" in log
    with RawConnection(two.bootstrap_servers) as client:
        for name, writer in writers.items():
            before = len(writer.errors)
            writer.burst(client, 2)
            assert len(writer.errors) - before == (2 if name == "second" else 0)
            if name != "second":
                assert numbers_in(client, name) == writer.acknowledged
    code, said = repair("--yes", str(home))
    assert (code, "stop the broker first" in said) == (1, True)
    assert two.stop() == 0
    code, said = repair(str(home))
    assert code == 1
    assert "has 10000 bytes from byte 20000 on that are no batch: offsets 2 to 2 are lost" in said
    assert log_file.stat().st_size == 50_000
    code, said = repair("--yes", str(home))
    assert code == 0
    assert (home / f"{log_file.name}.corrupt-20000").stat().st_size == 10_000
    assert repair(str(home.parent)) == (0, "".join(
        f"{home.parent}/{name}: every batch is whole\n" for name in sorted(
            entry for entry in os.listdir(home.parent)
            if not entry.startswith(".") and (home.parent / entry).is_dir()
        )
    ))  # fmt: skip
    two.start_anywhere()
    with RawConnection(two.bootstrap_servers) as client:
        writer = writers["second"]
        writer.burst(client, 1)
        assert writer.errors == [5, 6]


def test_a_hole_in_what_was_never_synced_needs_no_operator(two: BarnabasProcess) -> None:
    """A power cut leaves it, and nobody was told that it would not."""
    writers = written(two)
    home = two.data.parent / homes(two)["second"] / "second-0"
    two.kill()
    log_file = home / "00000000000000000000.log"
    with log_file.open("r+b") as file:
        file.seek(20_000)
        file.write(bytes(8192))
    two.start_anywhere()
    log = two.log_file.read_text()
    assert f"{log_file} is damaged: no valid record batch at byte 20000, where offset 2 should be" in log
    assert "It was not known to be synced: after a power cut a sound disk can show this too" in log
    assert "offline" not in log
    with RawConnection(two.bootstrap_servers) as client:
        for name, writer in writers.items():
            assert numbers_in(client, name) == ([0, 1] if name == "second" else writer.acknowledged)


def test_kafka_s_way_with_damage_is_a_choice(two: BarnabasProcess) -> None:
    written(two)
    home = two.data.parent / homes(two)["second"] / "second-0"
    killed_after_an_orderly_end(two)
    with (home / "00000000000000000000.log").open("r+b") as file:
        file.seek(25_000)
        file.write(b"\xaa\x55")
    two.bootstrap_servers = ""
    two.start(barnabas_recovery_corrupt="truncate")
    assert "It is cut at that place (barnabas.recovery.corrupt)" in two.log_file.read_text()
    with RawConnection(two.bootstrap_servers) as client:
        assert numbers_in(client, "second") == [0, 1]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_indexes_cut_short(two: BarnabasProcess, how: str) -> None:
    writers = written(two, 20)
    home = two.data.parent / homes(two)["third"] / "third-0"
    assert two.stop() == 0
    index = home / "00000000000000000000.index"
    size = index.stat().st_size
    assert size > 100
    os.truncate(index, size - 3)
    if how == "kill":
        (home.parent / ".kafka_cleanshutdown").unlink()
    two.start_anywhere()
    with RawConnection(two.bootstrap_servers) as client:
        assert numbers_in(client, "third") == writers["third"].acknowledged
    assert two.stop() == 0
    assert index.stat().st_size == size
    if how == "stop":
        assert "has no sound indexes; they are made again" in two.log_file.read_text()


class FewFiles(BarnabasProcess):
    """May have 300 files and sockets open."""

    limit = 300

    def _program(self) -> list[str]:
        return ["prlimit", f"--nofile={self.limit}:{self.limit}", *super()._program()]


def test_few_open_files_and_many_partitions(tmp_path: Path) -> None:
    """More partitions than files may be open: all are written to, read, and there after a restart."""
    partitions = 250
    broker = FewFiles(tmp_path / "data", {"offsets.topic.num.partitions": "1"})
    config = {"bootstrap.servers": "", "linger.ms": 5, "message.timeout.ms": PATIENCE_SECONDS * 1000}
    with broker:
        Topics(broker.bootstrap_servers).create("many", partitions)
        failed: list[str] = []
        for round_number in range(2):
            producer = Producer(config | {"bootstrap.servers": broker.bootstrap_servers})
            for number in range(4 * partitions):
                producer.produce(
                    "many", b"%d" % number, partition=number % partitions,
                    on_delivery=lambda error, _: None if error is None else failed.append(str(error)),
                )  # fmt: skip
            assert producer.flush(PATIENCE_SECONDS) == 0
            assert failed == []
            servers = {"bootstrap.servers": broker.bootstrap_servers}
            consumer = Consumer(servers | {"group.id": "few", "auto.offset.reset": "error"})
            consumer.assign([TopicPartition("many", index, 0) for index in range(partitions)])
            take(consumer, 4 * partitions * (round_number + 1), timeout_seconds=PATIENCE_SECONDS)
            consumer.close()
            segments = [name for name in os.listdir(f"/proc/{broker.pid}/fd") if _is_log(broker.pid, name)]
            assert 0 < len(segments) <= bound_for(FewFiles.limit) + 2
            if round_number == 0:
                assert broker.stop() == 0
                broker.start_anywhere()
        log = broker.log_file.read_text()
        assert "the process may have 300 files and sockets open" in log
        assert "ulimit -n" in log


def _is_log(pid: int, descriptor: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}").endswith(".log")
    except FileNotFoundError:
        return False


def test_a_limit_that_is_too_small_is_said(tmp_path: Path) -> None:
    broker = FewFiles(tmp_path / "data")
    broker.limit = 100
    with pytest.raises(RuntimeError, match="may have only 100 files and sockets open, but needs 160"):
        broker.start()
