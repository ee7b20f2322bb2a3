"""Bad batches through a Produce request, every record looked at: code and record errors are Apache Kafka's.

The numbers in the table were learned from Apache Kafka, and BARNABAS_TEST_AGAINST=kafka asks it again. Where
ours differ they stand beside with the reason: Kafka answers UNKNOWN_SERVER_ERROR where its decompression or
its varint reader throws something that nobody expected, and its own renumbering fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import pytest

from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.hostile.conftest import AnyBroker
from tests.support.brokers.against import AGAINST_KAFKA, barnabas_only
from tests.support.clients.raw_connection import RawConnection, serves_others
from tests.support.clients.topics import Topics
from tests.support.samples import bad_batches as bad

VERSION: Final = 12
HOUR_MS: Final = 3_600_000
TOPICS: Final = {
    "plain": {},
    "compact": {"cleanup.policy": "compact"},
    "lat": {"message.timestamp.type": "LogAppendTime"},
    "gz": {"compression.type": "gzip"},
    "before": {"message.timestamp.before.max.ms": str(HOUR_MS)},
    "small": {"max.message.bytes": "200"},
}

NONE, CORRUPT, TOO_LARGE, INVALID, TIMESTAMP, SERVER, CODEC, SEQUENCE = (
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)


class Case(NamedTuple):
    """What is sent where, and what comes back: a code, and the numbers of the records at fault."""

    make: bad.Maker
    code: ErrorCode
    at_fault: tuple[int, ...] = ()
    topic: str = "plain"
    ours: ErrorCode | None = None
    version: int = VERSION


CASES: Final = {
    "good": Case(bad.good, NONE),
    "no bytes": Case(bytes, INVALID),
    "one byte": Case(lambda: b"\0", INVALID),
    "sixteen bytes": Case(lambda: bytes(bad.good()[:16]), INVALID),
    "half a header": Case(lambda: bytes(bad.good()[:30]), INVALID),
    "a byte short": Case(lambda: bad.good()[:-1], INVALID),
    "zeros": Case(lambda: bytes(100), CORRUPT),
    "two batches": Case(lambda: bad.good() + bad.good(), INVALID),
    "rubbish behind": Case(lambda: bad.good() + b"rubbish", NONE),
    "checksum": Case(lambda: bad.lying(crc=1), CORRUPT),
    "a flipped bit": Case(lambda: bad.lying(bad.good(), sealed=False, record_count=4), CORRUPT),
    "magic 0": Case(lambda: bad.lying(magic=0), INVALID),
    "magic 1": Case(lambda: bad.lying(magic=1), INVALID),
    "magic 3": Case(lambda: bad.lying(magic=3), CORRUPT),
    "magic -1": Case(lambda: bad.lying(magic=-1), CORRUPT),
    "length 0": Case(lambda: bad.lying(batch_length=0, sealed=False), CORRUPT),
    "length -1": Case(lambda: bad.lying(batch_length=-1, sealed=False), CORRUPT),
    "length 20": Case(lambda: bad.lying(batch_length=20, sealed=False), CORRUPT),
    "length of 2 GB": Case(lambda: bad.lying(batch_length=2**31 - 1, sealed=False), SERVER, ours=INVALID),
    "base offset 7": Case(lambda: bad.lying(base_offset=7), INVALID),
    "leader epoch 9": Case(lambda: bad.lying(leader_epoch=9), NONE),
    "too many records announced": Case(lambda: bad.lying(record_count=4), INVALID),
    "no records announced": Case(lambda: bad.lying(record_count=0), INVALID),
    "-1 records announced": Case(lambda: bad.lying(record_count=-1, last_offset_delta=-2), INVALID),
    "2 billion records": Case(
        lambda: bad.lying(record_count=2**31 - 1, last_offset_delta=2**31 - 2), INVALID
    ),
    "last offset beyond": Case(lambda: bad.lying(last_offset_delta=7), INVALID),
    "last offset negative": Case(lambda: bad.lying(last_offset_delta=-1), INVALID),
    "control batch": Case(bad.control, INVALID),
    "producer without sequence": Case(lambda: bad.lying(producer_id=1, producer_epoch=0), INVALID),
    "negative sequence": Case(lambda: bad.lying(producer_id=1, producer_epoch=0, base_sequence=-5), INVALID),
    "sequence without producer": Case(lambda: bad.lying(base_sequence=5), NONE),
    "records longer": Case(lambda: bad.wrong_inner_length(1), INVALID),
    "records shorter": Case(lambda: bad.wrong_inner_length(-1), INVALID),
    "record length negative": Case(bad.negative_record_length, INVALID),
    "record length huge": Case(lambda: bad.wrong_inner_length(60), INVALID),
    "endless varint": Case(bad.endless_varint, SERVER, ours=INVALID),
    "key longer than its record": Case(lambda: bad.record_with(100), INVALID),
    "a billion headers": Case(lambda: bad.record_with(3, 10**9), INVALID),
    "minus one headers": Case(lambda: bad.record_with(3, -1), INVALID),
    "records missing": Case(lambda: bad.with_records(bad.plain_records(2), 3), INVALID),
    "records too many": Case(lambda: bad.with_records(bad.plain_records(4), 3), INVALID),
    "no records at all": Case(lambda: bad.with_records(b"", 1), INVALID),
    "codec 5": Case(lambda: bad.lying(attributes=5), SERVER, ours=CODEC),
    "codec 7": Case(lambda: bad.lying(attributes=7), SERVER, ours=CODEC),
    "offsets out of order": Case(bad.unsequential, NONE),
    "offsets out of order, gzip": Case(lambda: bad.unsequential(1), SERVER, ours=NONE),
    "zstd for an old client": Case(lambda: bad.good(codec=4), CODEC, version=6),
    "zstd": Case(lambda: bad.good(codec=4), NONE, version=7),
    **{
        f"random bytes as codec {codec}": Case(partial(bad.random_stream, codec), SERVER, ours=INVALID)
        for codec in (1, 2, 3, 4)
    },
    **{
        f"cut stream of codec {codec}": Case(partial(bad.cut_stream, codec), SERVER, ours=INVALID)
        for codec in (1, 2, 3, 4)
    },
    "append time claimed": Case(bad.claims_append_time, NONE),
    "append time claimed, no timestamp": Case(lambda: bad.claims_append_time(-1), TIMESTAMP, (0,)),
    "append time claimed where it is": Case(bad.claims_append_time, TIMESTAMP, (0, 1, 2), "lat"),
    "in two hours": Case(lambda: bad.stamped(bad.now_ms(), bad.now_ms() + 2 * HOUR_MS), TIMESTAMP, (1,)),
    "at the end of time": Case(lambda: bad.stamped(2**63 - 1), TIMESTAMP, (0,)),
    "before all time": Case(lambda: bad.stamped(-(2**63)), TIMESTAMP, (0,)),
    "of 1970": Case(lambda: bad.stamped(bad.now_ms(), 5, 6), TIMESTAMP, (1, 2), "before"),
    "no timestamp": Case(lambda: bad.stamped(-1), NONE, (), "before"),
    "largest timestamp a lie": Case(lambda: bad.lying(max_timestamp=2**62), NONE),
    "no key, compacted": Case(lambda: bad.good(key=None), INVALID, (0, 1, 2), "compact"),
    "a key, compacted": Case(bad.good, NONE, (), "compact"),
    "larger than allowed": Case(lambda: bad.good(value=bytes(200)), TOO_LARGE, (), "small"),
    "bad records, compacted": Case(lambda: bad.wrong_inner_length(1), INVALID, (), "compact"),
    "bad records, recompressed": Case(lambda: bad.wrong_inner_length(1), INVALID, (), "gz"),
    "good, recompressed": Case(bad.good, NONE, (), "gz"),
    "good, recompressed from zstd": Case(lambda: bad.good(codec=4), NONE, (), "gz"),
    "bad records, append time": Case(lambda: bad.wrong_inner_length(1), INVALID, (), "lat"),
}


@pytest.fixture(scope="module")
def strict(make_broker: Callable[..., AnyBroker]) -> AnyBroker:
    """A broker that looks at every record, as Kafka always does, with a topic of each kind."""
    broker = make_broker({"barnabas.record.validation": "full"})
    topics = Topics(broker.bootstrap_servers)
    for name, config in TOPICS.items():
        topics.create(name, config=config)
    return broker


@pytest.fixture(scope="module")
def client(strict: AnyBroker) -> Iterator[RawConnection]:
    """One connection for all: a refused batch does not cost it."""
    with RawConnection(strict.bootstrap_servers) as connection:
        yield connection
    serves_others(strict.bootstrap_servers)


def produce(topic: str, records: bytes | bytearray, acks: int = -1) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(0, records)
    return ProduceRequest(
        None, acks, 5000, [ProduceRequest.TopicProduceData(topic, partition_data=[partition])]
    )


def answer(client: RawConnection, case: Case) -> ProduceResponse.PartitionProduceResponse:
    response = client.ask_for(ProduceResponse, produce(case.topic, case.make()), case.version)
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_on_a_batch(client: RawConnection, name: str) -> None:
    case = CASES[name]
    got = answer(client, case)
    expected = case.code if case.ours is None or AGAINST_KAFKA else case.ours
    assert (ErrorCode.of(got.error_code), got.error_message) == (expected, got.error_message)
    assert tuple(error.batch_index for error in got.record_errors) == case.at_fault
    assert (got.base_offset == -1) == (expected != NONE)
    assert got.error_message or not case.at_fault


@pytest.mark.parametrize("name", ["checksum", "two batches", "control batch", "records longer", "magic 0"])
def test_without_an_answer_an_error_closes_the_connection(strict: AnyBroker, name: str) -> None:
    """acks=0: the producer is told in the only way there is."""
    with RawConnection(strict.bootstrap_servers) as client:
        client.send(produce("plain", CASES[name].make(), acks=0), VERSION)
        assert client.remaining() == b""


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
def test_acks_that_mean_nothing(client: RawConnection, acks: int) -> None:
    response = client.ask_for(ProduceResponse, produce("plain", bad.good(), acks), VERSION)
    got = response.responses[0].partition_responses[0]
    assert (got.error_code, got.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)


@barnabas_only
def test_null_records(client: RawConnection) -> None:
    """Apache Kafka trips over them and never answers."""
    request = produce("plain", b"")
    request.topic_data[0].partition_data[0].records = None
    got = client.ask_for(ProduceResponse, request, VERSION).responses[0].partition_responses[0]
    assert got.error_code == ErrorCode.INVALID_RECORD


def test_sequences_that_do_not_follow(client: RawConnection) -> None:
    """Sequences 0-2, then a gap, an overlap, an older epoch: refused; the same again: its first offset."""

    def sent(epoch: int, sequence: int) -> tuple[int, int]:
        batch = bad.lying(producer_id=4711, producer_epoch=epoch, base_sequence=sequence)
        response = client.ask_for(ProduceResponse, produce("plain", batch), VERSION)
        got = response.responses[0].partition_responses[0]
        return got.error_code, got.base_offset

    code, first = sent(1, 0)
    assert code == NONE
    assert sent(1, 0) == (NONE, first)
    assert sent(1, 5) == (SEQUENCE, -1)
    assert sent(1, 1) == (SEQUENCE, -1)
    assert sent(1, 2**31 - 1) == (SEQUENCE, -1)
    assert sent(0, 3) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert sent(2, 3) == (SEQUENCE, -1)
    assert sent(1, 3) == (NONE, first + 3)


def test_partitions_of_one_request_are_judged_each_for_itself(client: RawConnection) -> None:
    request = produce("plain", bad.good())
    for topic, index, records in (
        ("small", 0, bad.good(value=bytes(300))),
        ("compact", 0, bad.good(key=None)),
        ("plain", 1, bad.good()),
        ("nowhere", 0, bad.good()),
        ("lat", 0, bad.good()),
    ):
        request.topic_data += produce(topic, records).topic_data
        request.topic_data[-1].partition_data[0].index = index
    response = client.ask_for(ProduceResponse, request, VERSION)
    codes = {
        (topic.name, part.index): part.error_code
        for topic in response.responses
        for part in topic.partition_responses
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {
        ("plain", 0): NONE,
        ("small", 0): TOO_LARGE,
        ("compact", 0): INVALID,
        ("plain", 1): unknown,
        ("nowhere", 0): unknown,
        ("lat", 0): NONE,
    }
