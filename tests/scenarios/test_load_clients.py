"""The clients of the benchmarks: what they say they did is what the broker's logs hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.performance.compiled import compiled
from tests.performance.contenders import Topic
from tests.performance.load import Load, Outcome, put
from tests.performance.processor_time import spent
from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic

pytestmark = barnabas_only

RECORDS_PER_BATCH = 9
BATCHES = 500


@pytest.fixture
def broker(new_broker: Callable[..., BarnabasProcess]) -> BarnabasProcess:
    return new_broker()


@pytest.fixture(params=["load_client", None], ids=["in C", "in Python"])
def in_c(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """The test once with each client, and which it is."""
    if request.param and compiled(request.param) is None:
        pytest.skip("no C compiler")
    if not request.param:
        monkeypatch.setattr("tests.performance.load.compiled", lambda name: None)
    return bool(request.param)


def made_topic(broker: BarnabasProcess, name: str, partitions: int) -> Topic:
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient

    from protocol.values import uuid_from_text

    create_topic(broker.bootstrap_servers, name, partitions)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = admin.describe_topics(TopicCollection([name]))[name].result(60)
    return Topic(name, uuid_from_text(str(found.topic_id)).hex(), partitions)


def end_offsets(broker: BarnabasProcess, topic: Topic) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic.name, index), timeout=60)[1]
            for index in range(topic.partitions)
        ]
    finally:
        consumer.close()


def produced(broker: BarnabasProcess, topic: Topic, **more: object) -> Outcome:
    given: dict[str, object] = {
        "kind": "produce",
        "port": broker.port,
        "seconds": 30.0,
        "partitions": topic.each_partition,
        "connections": 2,
        "request_bytes": 1000,
        "record_bytes": 100,
        "max_bytes": BATCHES * 1000,
    }
    return put(Load(**(given | more)))  # type: ignore[arg-type]


@pytest.mark.parametrize("idempotent", [False, True])
def test_every_batch_that_is_counted_is_in_the_log(
    broker: BarnabasProcess, in_c: bool, idempotent: bool
) -> None:
    """The broker checks the checksum of every batch, and of an idempotent producer's the sequence."""
    topic = made_topic(broker, "counted", 4)
    outcome = produced(broker, topic, idempotent=idempotent)
    assert outcome.requests >= BATCHES * 1000 // 1100
    ends = end_offsets(broker, topic)
    assert min(ends) > 0
    # The Python client leaves without the answers to its last requests, five on each connection.
    unanswered = 0 if in_c else 10
    assert 0 <= sum(ends) - outcome.requests * RECORDS_PER_BATCH <= unanswered * RECORDS_PER_BATCH


def test_fetches_bring_the_batches_in_turn(broker: BarnabasProcess, in_c: bool) -> None:
    topic = made_topic(broker, "read", 1)
    made = produced(broker, topic, connections=1)
    batch_bytes = made.bytes // made.requests
    fetching = {
        "kind": "fetch",
        "request_bytes": 3 * batch_bytes,
        "end_offset": made.requests * RECORDS_PER_BATCH,
        "records_per_batch": RECORDS_PER_BATCH,
        "batch_bytes": batch_bytes,
        "max_bytes": 1 << 20,
    }
    outcome = produced(broker, topic, **fetching)
    assert outcome.bytes >= 1 << 20
    assert outcome.bytes / outcome.requests > 3 * batch_bytes
    if in_c:
        assert produced(broker, topic, **fetching, connections=1, in_session=True).bytes >= 1 << 20


@pytest.mark.usefixtures("in_c")
def test_a_refusal_ends_the_run(broker: BarnabasProcess) -> None:
    topic = made_topic(broker, "refused", 1)
    with pytest.raises(RuntimeError, match="produce was refused: error 3"):
        produced(broker, topic._replace(name="missing"))


def test_the_kernel_tells_what_a_process_spent(broker: BarnabasProcess) -> None:
    topic = made_topic(broker, "counted", 1)
    before = spent(broker.pid)
    produced(broker, topic)
    after = spent(broker.pid) - before
    assert after.seconds > 0
    assert after.seconds == pytest.approx(after.user + after.system)
