"""Transactions as an operator sees them: listed, described, hanging, aborted by hand, ended by force.

Topic `ledger` gets a transaction that is committed, one that is aborted, one with offsets of a group, and one
that stays open. While brokers do not verify that a partition belongs to a transaction, records of one are
written behind the coordinator's back: this is what hangs.
"""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.builder import SimpleRecord, build_batch
from tests.side_by_side.cases import QUICK, Case, java, kafka_python, step, tool
from tests.side_by_side.of_records import FIRST_MS
from tests.side_by_side.sides import SETTLING_SECONDS, Side
from tests.support.clients.wire_client import WireClient

TIMEOUT_MS: Final = 900_000
"""Longer than all calls take; it also tells a column of durations, see `normalising`."""
LAST_WITHOUT_IMPLICIT_PARTITIONS: Final = 11
"""The version of Produce that adds no partition to its transaction."""


def _begin(side: Side, transactional_id: str, *partitions: int) -> Producer:
    """A producer whose transaction has a record in each partition, and is open."""
    producer = Producer(
        {
            "bootstrap.servers": side.address,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TIMEOUT_MS,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition in partitions:
        # With a key: what the cases before have made of the brokers' defaults wants one.
        producer.produce("ledger", transactional_id, "key", partition=partition, timestamp=FIRST_MS)
    producer.flush(60)
    return producer


def _commit(side: Side) -> None:
    _begin(side, "paid", 0, 1).commit_transaction(60)


def _abort(side: Side) -> None:
    _begin(side, "refused", 1).abort_transaction(60)


def _leave_open(side: Side) -> None:
    side.kept["open"] = _begin(side, "open", 0, 2)


def _commit_offsets(side: Side) -> None:
    """Offsets that a group gets with the transaction, which is not committed yet."""
    producer = _begin(side, "moved", 2)
    reader = Consumer({"bootstrap.servers": side.address, "group.id": "auditors"})
    member = reader.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("ledger", 0, 2)], member, 60)
    reader.close()
    side.kept["moved"] = producer


def _commit_the_rest(side: Side) -> None:
    side.kept.pop("moved").commit_transaction(60)


def _commit_too_late(side: Side) -> None:
    side.kept.pop("open").commit_transaction(60)


def _hang(side: Side) -> list[int]:
    """A record of a transaction that its coordinator knows nothing of; with the partition's answer. A broker
    may hear a moment later that it is to verify nothing."""
    deadline = time.monotonic() + SETTLING_SECONDS
    with WireClient(side.address) as client:
        asked = InitProducerIdRequest("hung", TIMEOUT_MS)
        given = client.ask_for(InitProducerIdResponse, asked, 5)
        batch = build_batch(
            [SimpleRecord(b"key", b"hung", FIRST_MS)],
            producer_id=given.producer_id, producer_epoch=given.producer_epoch, base_sequence=0,
            transactional=True,
        )  # fmt: skip
        topic = ProduceRequest.TopicProduceData(
            "ledger", partition_data=[ProduceRequest.PartitionProduceData(1, batch)]
        )
        request = ProduceRequest("hung", acks=-1, timeout_ms=5000, topic_data=[topic])
        while True:
            answer = client.ask_for(ProduceResponse, request, LAST_WITHOUT_IMPLICIT_PARTITIONS)
            told = answer.responses[0].partition_responses[0]
            if told.error_code != ErrorCode.TRANSACTION_ABORTABLE or time.monotonic() > deadline:
                break
            time.sleep(0.1)
    return [told.error_code, told.base_offset]


TOOL: Final = "kafka-transactions --bootstrap-server {broker}"
PRODUCERS: Final = f"{TOOL} describe-producers --topic ledger --partition"
BROKERS: Final = "kafka-configs --alter --entity-type brokers --entity-default"
VERIFICATION: Final = "transaction.partition.verification.enable"
READ: Final = (
    "kafka-console-consumer --topic ledger --from-beginning --timeout-ms 5000 "
    "--formatter-property print.partition=true"
)

CASES: Final[tuple[Case, ...]] = (
    tool("create their topic", "kafka-topics --create --topic ledger --partitions 3"),
    tool("none yet", f"{TOOL} list"),
    tool("describe one that is not there", f"{TOOL} describe --transactional-id nobody"),
    step("one is committed", _commit),
    step("one is aborted", _abort),
    step("one stays open", _leave_open),
    step("one has offsets", _commit_offsets),
    tool("list", f"{TOOL} list", unordered=True, until="CompleteAbort"),
    tool("list those that take long", f"{TOOL} list --duration-filter 3600000"),
    tool("list those that do not", f"{TOOL} list --duration-filter 0", unordered=True),
    tool("list by a pattern", f"{TOOL} list --transactional-id-pattern '[pr].*'", unordered=True),
    tool("list by a bad pattern", f"{TOOL} list --transactional-id-pattern '['"),
    tool("describe one that is open", f"{TOOL} describe --transactional-id open"),
    tool("describe one with offsets", f"{TOOL} describe --transactional-id moved"),
    tool("describe a committed one", f"{TOOL} describe --transactional-id paid"),
    tool("describe an aborted one", f"{TOOL} describe --transactional-id refused"),
    java("list (Java)", "listTransactions"),
    java("list by state (Java)", "listTransactions states=Ongoing"),
    java("list by an odd state (Java)", "listTransactions states=Weary"),
    java("list by pattern (Java)", "listTransactions pattern=.*d"),
    java("describe (Java)", "describeTransactions open paid nobody"),
    kafka_python("list (kafka-python)", lambda admin: admin.list_transactions()),
    kafka_python("describe (kafka-python)", lambda admin: admin.describe_transactions(["moved", "paid"])),
    tool("producers of a partition, one is open", f"{PRODUCERS} 0", unordered=True),
    tool("producers of a partition, all have ended", f"{PRODUCERS} 1", unordered=True),
    java("producers (Java)", "describeProducers ledger-2"),
    tool(
        "read what is committed",
        f"{READ} --isolation-level read_committed",
        unordered=True,
        until="a total of 2 messages",
    ),
    tool(
        "read all",
        f"{READ} --isolation-level read_uncommitted",
        unordered=True,
        until="a total of 6 messages",
    ),
    tool("offsets", "kafka-get-offsets --topic ledger"),
    tool("a group's offsets, not yet", "kafka-consumer-groups --describe --group auditors"),
    tool("find none hanging", f"{TOOL} find-hanging --broker-id 1"),
    tool("find none hanging in a topic", f"{TOOL} find-hanging --topic ledger"),
    tool("find none hanging in a partition", f"{TOOL} find-hanging --topic ledger --partition 0"),
    tool("find hanging ones nowhere", f"{TOOL} find-hanging"),
    tool("find hanging ones in no topic", f"{TOOL} find-hanging --topic nowhere"),
    tool("find hanging ones at no broker", f"{TOOL} find-hanging --broker-id 7"),
    tool("find hanging ones in a partition of no topic", f"{TOOL} find-hanging --partition 0"),
    tool("abort at no offset", f"{TOOL} abort --topic ledger --partition 0"),
    tool("abort at a wrong offset", f"{TOOL} abort --topic ledger --partition 0 --start-offset 77"),
    tool(
        "abort in no topic",
        f"{TOOL} --command-config {{quick}} abort --topic nowhere --partition 0 --start-offset 0",
        quick=QUICK,
    ),
    tool("do not verify", f"{BROKERS} --add-config {VERIFICATION}=false"),
    step("one hangs", _hang),
    tool("find it", f"{TOOL} find-hanging --broker-id 1", until="ledger"),
    tool("find it with patience", f"{TOOL} find-hanging --topic ledger --max-transaction-timeout 10000000"),
    tool("its producer", f"{PRODUCERS} 1", unordered=True),
    kafka_python("find it (kafka-python)", lambda admin: admin.find_hanging_transactions()),
    tool("abort it", f"{TOOL} abort --topic ledger --partition 1 --start-offset 4"),
    tool("abort it again", f"{TOOL} abort --topic ledger --partition 1 --start-offset 4"),
    tool("none hangs any more", f"{TOOL} find-hanging --broker-id 1"),
    tool("its producer afterwards", f"{PRODUCERS} 1", unordered=True),
    tool(
        "abort as for old brokers",
        f"{TOOL} abort --topic ledger --partition 1 --producer-id 4711 --producer-epoch 3 "
        "--coordinator-epoch 0",
    ),
    java("abort, an old epoch (Java)", "abortTransaction ledger-1 4711 2 0"),
    tool("verify again", f"{BROKERS} --delete-config {VERIFICATION}"),
    step("the offsets are committed", _commit_the_rest),
    tool("a group's offsets", "kafka-consumer-groups --describe --group auditors", until="auditors"),
    tool("end one by force", f"{TOOL} forceTerminateTransaction --transactionalId open"),
    tool("it has ended", f"{TOOL} describe --transactional-id open", until="Empty"),
    step("its producer is fenced", _commit_too_late),
    tool("end by force what is not there", f"{TOOL} forceTerminateTransaction --transactionalId nobody"),
    java("fence producers (Java)", "fenceProducers paid refused newcomer"),
    tool("list at the end", f"{TOOL} list", unordered=True),
    tool("producers at the end", f"{PRODUCERS} 0", unordered=True),
    tool("delete their topic", "kafka-topics --delete --topic ledger"),
)  # fmt: skip
