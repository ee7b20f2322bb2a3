"""A load that leaves a directory with everything in it that a log can hold, and all that a client sees of it.

Topics with every codec; idempotent producers; transactions that were committed, aborted and left open; a
compacted topic with tombstones, a topic that retention cuts, one with both policies; offsets of groups, some
in transactions; configs that were altered.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.clients.librdkafka import commit, create_topic, fill, settings, until

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL_SEGMENTS: Final = {"internal_segment_bytes": "40000", "index_interval_bytes": "500"}
TOPICS: Final = ("codecs", "compacted", "cut", "both", "ledger", "outbox")
COMPACTED: Final = ("compacted", "both")
KEYS: Final = 40
PATIENCE_SECONDS: Final = 60
OPEN_TRANSACTION_MS: Final = 900_000
"""Longer than any test: nobody ends it but who knows of it."""

Seen = tuple[int, int, bytes | None, bytes | None, Any]
"""Offset, timestamp, key, value, headers."""


class State(NamedTuple):
    """What clients see of a broker."""

    topic_ids: dict[str, str]
    configs: dict[str, dict[str, str]]
    watermarks: dict[str, tuple[int, int]]
    uncommitted: dict[str, list[Seen]]
    committed: dict[str, list[Seen]]
    groups: dict[str, dict[str, tuple[int, str]]]


def make_topics(address: str) -> None:
    create_topic(address, "codecs", 2, retention_ms="-1")
    create_topic(
        address, "compacted", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01",
        segment_ms="500", **SMALL_SEGMENTS,
    )  # fmt: skip
    create_topic(address, "cut", 1, retention_bytes="100000", **SMALL_SEGMENTS)
    create_topic(
        address, "both", 1, cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0.01",
        retention_bytes="200000", **SMALL_SEGMENTS,
    )  # fmt: skip
    create_topic(address, "ledger", 2, **SMALL_SEGMENTS)
    create_topic(address, "outbox", 1, compression_type="zstd", message_timestamp_type="LogAppendTime")


def alter_configs(address: str) -> None:
    admin = AdminClient(settings(address))
    set_ = AlterConfigOpType.SET
    wanted = [
        (ResourceType.TOPIC, "codecs", "max.message.bytes", "2000000"),
        (ResourceType.TOPIC, "ledger", "retention.ms", "1234567890"),
        (ResourceType.BROKER, "1", "log.cleaner.backoff.ms", "150"),
    ]
    for kind, name, key, value in wanted:
        entry = ConfigEntry(key, value, incremental_operation=set_)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)


def work(address: str, seed: int) -> None:
    """One turn of the load, all but its `transactions`."""
    random_source = random.Random(seed)
    for index, codec in enumerate(CODECS):
        values = [f"{seed} {codec} {number} " * random_source.randint(1, 60) for number in range(30)]
        fill(address, "codecs", values, partition=index % 2, compression_type=codec, linger_ms=5)
    producer = Producer(settings(address, enable_idempotence=True, linger_ms=5, batch_size=4000))
    for number in range(1500):
        key = f"key{random_source.randrange(KEYS)}"
        value = None if random_source.random() < 0.05 else f"{seed}-{number}-{'v' * 100}"
        for topic in ("compacted", "both", "cut"):
            headers: Any = [("turn", str(seed).encode()), ("nothing", None)] if number % 50 == 0 else None
            producer.produce(topic, value, key, partition=0, headers=headers)
    for number in range(50):
        producer.produce("outbox", f"{seed} {number}", f"{number}")
    assert producer.flush(60) == 0
    for group in ("readers", f"turn{seed}"):
        commit(
            address, group,
            TopicPartition("codecs", 0, 10 + seed, metadata=f"turn {seed}"), TopicPartition("cut", 0, seed),
        )  # fmt: skip


def transactions(address: str, seed: int) -> Producer:
    """Committed and aborted ones through each other, offsets of a group in some; then one that stays open,
    as long as this producer is kept and nobody else takes its transactional id."""
    random_source = random.Random(seed)
    shared = {**settings(address, transaction_timeout_ms=OPEN_TRANSACTION_MS), "log_level": 0}
    writers = [Producer({**shared, "transactional.id": f"writer{n}"}) for n in range(3)]
    for writer in writers:
        writer.init_transactions(60)
    reader = Consumer(settings(address, group_id="movers"))
    for turn in range(6):
        for writer in writers:
            writer.begin_transaction()
        for number in range(100):
            writer = random_source.choice(writers)
            writer.produce("ledger", f"{seed} {turn} {number} {'t' * 200}", partition=number % 2)
            writer.produce("compacted", f"{seed} {turn} {number}", f"tx{number % 10}", partition=0)
        for index, writer in enumerate(writers):
            if index == 0:
                at = [TopicPartition("codecs", 1, turn + 1)]
                writer.send_offsets_to_transaction(at, reader.consumer_group_metadata(), 30)
            end = writer.abort_transaction if (turn + index) % 3 == 0 else writer.commit_transaction
            writer.flush(30)
            end(30)
    reader.close()
    left_open = writers[2]
    left_open.begin_transaction()
    for number in range(20):
        left_open.produce("ledger", f"{seed} open {number}", partition=1)
    assert left_open.flush(30) == 0
    return left_open


def read_all(
    address: str, marks: dict[tuple[str, int], tuple[int, int]], isolation: str
) -> dict[str, list[Seen]]:
    """All that a consumer gets from each log's start to its end, or to the last stable offset."""
    consumer = Consumer(
        settings(
            address, group_id="nobody", isolation_level=isolation, enable_partition_eof=True,
            enable_auto_commit=False, auto_offset_reset="earliest", check_crcs=True, fetch_wait_max_ms=50,
        )
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, number, low) for (topic, number), (low, _) in marks.items()])
    found: dict[str, list[Seen]] = {f"{topic}-{number}": [] for topic, number in marks}
    ended: set[str] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < len(marks):
        assert time.monotonic() < deadline, f"read to the end ({isolation}): {sorted(ended)} only"
        for message in consumer.consume(1000, 0.2):
            name, error = f"{message.topic()}-{message.partition()}", message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(name)
                continue
            offset, (_, timestamp) = message.offset(), message.timestamp()
            assert offset is not None
            found[name].append((offset, timestamp, message.key(), message.value(), message.headers()))
    consumer.close()
    return found


def partitions(address: str) -> Iterator[tuple[str, int]]:
    topics = AdminClient(settings(address)).list_topics(timeout=30).topics
    for topic in TOPICS:
        yield from ((topic, number) for number in sorted(topics[topic].partitions))


def look(address: str) -> State:
    admin = AdminClient(settings(address))
    told = admin.describe_topics(TopicCollection(list(TOPICS)))
    ids = {name: str(future.result(30).topic_id) for name, future in told.items()}
    reader = Consumer(settings(address, group_id="nobody"))
    places = list(partitions(address))
    marks = {place: _marks(reader, TopicPartition(*place)) for place in places}
    reader.close()
    return State(
        topic_ids=ids,
        configs={name: _altered(admin, ResourceType.TOPIC, name) for name in TOPICS}
        | {"": _altered(admin, ResourceType.BROKER, "1")},
        watermarks={f"{topic}-{number}": mark for (topic, number), mark in marks.items()},
        uncommitted=read_all(address, marks, "read_uncommitted"),
        committed=read_all(address, marks, "read_committed"),
        groups=offsets_of_groups(admin),
    )


def _marks(reader: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Metadata names a leader a moment before Apache Kafka leads after a start."""
    deadline = time.monotonic() + 30
    while True:
        try:
            marks: tuple[int, int] = reader.get_watermark_offsets(place, 30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return marks


def _altered(admin: AdminClient, kind: Any, name: str) -> dict[str, str]:
    """What was set for this topic, or for this broker while it ran; no defaults, nothing of its own file."""
    resource = ConfigResource(kind, name)
    entries = admin.describe_configs([resource])[resource].result(30)
    dynamic = (1, 2)  # DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG
    return {key: entry.value for key, entry in entries.items() if entry.source in dynamic}


def offsets_of_groups(admin: AdminClient) -> dict[str, dict[str, tuple[int, str]]]:
    """Group to partition to what is committed; a coordinator that still loads is asked again."""
    listed: list[str] = []

    def loaded() -> bool:
        result = admin.list_consumer_groups(request_timeout=30).result(60)
        listed[:] = sorted(each.group_id for each in result.valid)
        return not result.errors

    until(loaded, "every partition of the offsets topic is loaded")
    return {group: _offsets(admin, group) for group in listed}


def _offsets(admin: AdminClient, group: str) -> dict[str, tuple[int, str]]:
    asked = [ConsumerGroupTopicPartitions(group)]
    told = admin.list_consumer_group_offsets(asked, require_stable=True)[group].result(30)
    return {
        f"{each.topic}-{each.partition}": (each.offset, (each.metadata or "").rstrip("\0"))
        for each in told.topic_partitions
    }


def last_values(records: list[Seen]) -> dict[bytes | None, bytes | None]:
    return {key: value for _, _, key, value, _ in records}


def check_same(before: State, after: State) -> None:
    """What clients saw of one broker is what they see of the other. Of topics that are compacted or cut
    older records may have gone meanwhile; what is there was there, and the last values are."""
    assert after.topic_ids == before.topic_ids
    assert after.configs == before.configs
    assert after.groups == before.groups
    for isolation in ("uncommitted", "committed"):
        was, is_ = getattr(before, isolation), getattr(after, isolation)
        assert is_.keys() == was.keys()
        for name in was:
            _check_records(f"{name}, read_{isolation}", was[name], is_[name])
    for name, (low, high) in before.watermarks.items():
        assert after.watermarks[name][1] == high, name
        assert after.watermarks[name][0] >= low, name


def check_open_ended(before: State, after: State) -> None:
    """What the former broker left open is aborted since a producer of this one has its transactional id:
    who reads committed records goes on behind it, and never sees it."""
    left_open = [record[0] for record in before.uncommitted["ledger-1"] if b" open " in (record[3] or b"")]
    was, is_ = ([record[0] for record in each.committed["ledger-1"]] for each in (before, after))
    assert was[-1] < left_open[-1] < is_[-1]
    assert not set(left_open) & set(is_)


def _check_records(where: str, was: list[Seen], is_: list[Seen]) -> None:
    if not where.startswith(("compacted", "both", "cut")):
        assert is_ == was, f"{where}: {_difference(was, is_)}"
        return
    known = {record[0]: record for record in was}
    for record in is_:
        assert known.get(record[0]) == record, f"{where}: {record} was not there"
    if where == "compacted-0, read_committed":  # the others see aborted records too, which compaction removes
        lost = last_values(was).items() - last_values(is_).items()
        assert last_values(is_) == last_values(was), f"{where}: {sorted(lost, key=str)[:5]}"
    elif where.startswith("cut"):
        # Retention may cut again between two fetches of the reader, which goes on where the log begins then.
        read = {record[0] for record in is_}
        missing = [index for index, record in enumerate(was) if is_[0][0] <= record[0] not in read]
        assert is_[-1] == was[-1], where
        assert all(later == index + 1 for index, later in pairwise(missing)), f"{where}: more than one hole"


def _difference(was: list[Seen], is_: list[Seen]) -> str:
    for index, (one, other) in enumerate(zip(was, is_, strict=False)):
        if one != other:
            return f"record {index} was {one}, is {other}"
    return json.dumps({"records": len(was), "now": len(is_)})
