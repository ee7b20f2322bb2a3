"""A log directory that cannot be used at a start: its partitions wait for it, and none is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, fill, settings, take, texts

PARTITIONS = 4
TEXTS = ["one", "two", "three"]


def read(address: str, partitions: list[int]) -> None:
    reader = Consumer(settings(address, group_id="nobody"))
    for partition in partitions:
        reader.assign([TopicPartition("t", partition, 0)])
        assert texts(take(reader, len(TEXTS))) == TEXTS
    reader.close()


def leaders(address: str) -> dict[int, int]:
    found = AdminClient(settings(address)).list_topics("t", timeout=30).topics["t"].partitions
    return {index: entry.leader for index, entry in found.items()}


def of_topic(directory: Path) -> list[int]:
    return sorted(int(each.name.removeprefix("t-")) for each in directory.glob("t-*"))


@pytest.mark.parametrize("name", [".lock", "meta.properties"])
def test_the_records_of_a_directory_that_was_missing_are_there_when_it_is_back(
    tmp_path: Path, name: str
) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    overrides = {"log.dirs": f"{there},{missing}"}
    with BarnabasProcess(tmp_path / "data", overrides) as broker:
        address = broker.bootstrap_servers
        create_topic(address, "t", PARTITIONS)
        for partition in range(PARTITIONS):
            fill(address, "t", TEXTS, partition=partition)
        broker.stop()
        here, lost = of_topic(there), of_topic(missing)
        assert lost
        file, aside = missing / name, tmp_path / name
        file.rename(aside)
        file.mkdir()  # so it cannot be opened, as on a disk that fails

        broker.start()
        read(address, here)
        assert leaders(address) == {index: 1 if index in here else -1 for index in range(PARTITIONS)}
        broker.stop()
        assert (of_topic(there), of_topic(missing)) == (here, lost)

        file.rmdir()
        aside.rename(file)
        broker.start()
        read(address, list(range(PARTITIONS)))
        assert (of_topic(there), of_topic(missing)) == (here, lost)
