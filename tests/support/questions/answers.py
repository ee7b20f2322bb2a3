"""One request of each kind in every version, and what Apache Kafka 4.3.1 answered to it.

``python -m tests.support.questions.answers`` puts the questions to a genuine broker and writes
tests/interop/genuine_answers.jsonl, one line for a case and versions of the same answer. A test puts them to
Barnabas and compares. What chance decides (ids, ports, the time) is replaced by a word, so that the rest can
be compared to the letter.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.produce import ProduceRequest
from protocol.records.builder import SimpleRecord, build_batch
from protocol.registry import ApiKey, api
from protocol.values import METADATA_TOPIC_ID, ZERO_UUID
from tests.support.clients.wire_client import ConnectionEnded, WireClient
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.questions import of_transactions
from tests.support.questions.every_api import CASES, COORDINATOR
from tests.support.questions.question import NOBODY, Case, World

CORPUS: Final = Path(__file__).resolve().parents[2] / "interop" / "genuine_answers.jsonl"

SETTINGS: Final = {"log.initial.task.delay.ms": "3600000"}
"""Of the broker that is asked. The records carry old times: nothing may remove them meanwhile."""

CHANCE: Final = frozenset(
    {
        "cluster_id",
        "finalized_features_epoch",
        "last_timestamp",
        "log_dir",
        "member_id",
        "port",
        "producer_id",
        "replica_directory_id",
        "session_id",
        "total_bytes",
        "transaction_start_time_ms",
        "usable_bytes",
    }
)
"""Fields whose value differs from run to run: only whether they are set is kept."""

TOPICS: Final[tuple[tuple[str, int, dict[str, str]], ...]] = (
    ("one", 1, {}),
    ("two", 2, {"cleanup.policy": "compact"}),
    ("small", 1, {"max.message.bytes": "70", "segment.bytes": "1048576"}),
    (of_transactions.TOPIC, 2, {}),
)

OF_A_QUORUM: Final = frozenset(
    {"high_watermark", "last_caught_up_timestamp", "last_fetch_timestamp", "log_end_offset"}
)

LEFT_OUT: Final = frozenset({"documentation", "api_keys", "supported_features", "finalized_features"})
"""Our own words, and what a test of its own looks at."""

UNORDERED: Final = frozenset(
    {
        "active_producers",
        "configs",
        "credential_infos",
        "groups",
        "responses",
        "results",
        "results_by_partition",
        "results_by_topic_v3_and_below",
        "results_by_transaction",
        "topic_results",
        "topics",
        "transaction_states",
    }
)
"""Arrays that Kafka fills from hash tables."""

NOT_YET: Final = re.compile(rb'error_code":%d\b' % ErrorCode.CONCURRENT_TRANSACTIONS)

UUID_TEXT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CLUSTER_ID_TEXT: Final = re.compile(r'(?<=cluster id ")[\w-]{22}')


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(each, int) for each in values)


def until(client: WireClient, request: Message, version: int, what: str) -> None:
    """Asks again until no part of the answer is an error."""
    for _ in range(600):
        if not re.search(r'"error_code":[^0]', msgspec.json.encode(client.ask(request, version)).decode()):
            return
        time.sleep(0.05)
    raise TimeoutError(what)


class Answers:
    """Puts the cases to a broker. Topics and groups of a case bear its name and version."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._world = World({})
        self._random_source: frozenset[str] = frozenset()

    def all(self) -> Iterator[tuple[str, int, Any]]:
        """(case, version, answer), the answer as JSON has it; ``"closed"`` when the connection was."""
        with WireClient(self._address) as client:
            self._prepare(client)
        for case in CASES:
            first, last = api(case.key).stable_versions
            for version in range(max(first, case.first), min(last, case.last) + 1):
                yield case.name, version, self._answer(case, version)

    def _prepare(self, client: WireClient) -> None:
        request = CreateTopicsRequest()
        for name, partitions, configs in TOPICS:
            topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1)
            topic.configs = [CreateTopicsRequest.CreatableTopicConfig(*item) for item in configs.items()]
            request.topics.append(topic)
        created = client.ask_for(CreateTopicsResponse, request, 7)
        self._world = World({topic.name: topic.topic_id for topic in created.topics})
        records = [SimpleRecord(b"k%d" % n, b"value %d" % n, 1_700_000_000_000 + n) for n in range(3)]
        produce = ProduceRequest(acks=-1, timeout_ms=30_000)
        partition = ProduceRequest.PartitionProduceData(0, build_batch(records))
        produce.topic_data.append(ProduceRequest.TopicProduceData("one", partition_data=[partition]))
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[COORDINATOR])
        commit = OffsetCommitRequest(group_id=COORDINATOR)
        place = OffsetCommitRequest.OffsetCommitRequestPartition(0, 0)
        commit.topics.append(OffsetCommitRequest.OffsetCommitRequestTopic("one", partitions=[place]))
        until(client, produce, 12, "the broker knows of the topic")
        until(client, find, 6, "the groups' topic is made")
        until(client, commit, 9, "the coordinator has loaded")
        until(client, InitProducerIdRequest(None), 4, "the broker has a block of producer ids")
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[of_transactions.OPEN])
        until(client, find, 6, "the transactions' topic is made")
        open_ = InitProducerIdRequest(of_transactions.OPEN, 900_000)
        until(client, open_, 5, "the coordinator of transactions has loaded")
        self._world = self._world.after(open_, client.ask(open_, 5))

    def _answer(self, case: Case, version: int) -> Any:
        with WireClient(self._address, timeout_seconds=60) as client:
            self._random_source = CHANCE | (
                OF_A_QUORUM if case.key == ApiKey.DESCRIBE_QUORUM else frozenset()
            )
            try:
                return self._plain(self._settled(client, case.request(self._world, version), version))
            except ConnectionEnded:
                return "closed"
            except TimeoutError:
                raise TimeoutError(f"{case.name}, version {version}: no answer in 60 s") from None

    def _settled(self, client: WireClient, request: Message, version: int) -> Message:
        """The answer, when a transaction before it is ended: markers take their time."""
        for _ in range(600):
            answer = client.ask(request, version)
            if not NOT_YET.search(msgspec.json.encode(answer)):
                self._world = self._world.after(request, answer)
                return answer
            time.sleep(0.02)
        raise TimeoutError("the transaction before it is not ended")

    def _plain(self, value: Any, field: str = "") -> Any:
        match value:
            case msgspec.Struct():
                names = value.__struct_fields__
                return {
                    name: self._plain(getattr(value, name), name) for name in names if name not in LEFT_OUT
                }
            case list():
                plain = [self._plain(each, field) for each in value]
                is_unordered = field in UNORDERED or (field == "partitions" and _are_numbers(plain))
                return sorted(plain, key=json.dumps) if is_unordered else plain
            case _ if field in self._random_source and value not in (None, "", -1, 0):
                return f"<{field}>"
            case bytes() | memoryview():
                return self._plain_bytes(bytes(value), field)
            case str():
                return CLUSTER_ID_TEXT.sub("<cluster_id>", UUID_TEXT.sub("<uuid>", value))
            case _:
                return value

    def _plain_bytes(self, value: bytes, field: str) -> str:
        if not field.endswith("id"):
            return value.hex()
        known = {id_: name for name, id_ in self._world.topic_ids.items()}
        known |= {ZERO_UUID: "zero", NOBODY: "nobody", METADATA_TOPIC_ID: "metadata"}
        return f"<id: {known.get(value, 'a new one')}>"


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kafka = GenuineKafka(Path(folder) / "data", SETTINGS)
        kafka.features = NO_FEATURES
        with kafka:
            answers = list(Answers(kafka.bootstrap_servers).all())
    with open(CORPUS, "w") as corpus:
        for (case, answer), same in groupby(answers, lambda each: (each[0], json.dumps(each[2]))):
            versions = [version for _, version, _ in same]
            corpus.write(f"[{json.dumps(case)}, {versions[0]}, {versions[-1]}, {answer}]\n")
    print(f"{len(answers)} answers of {len(CASES)} cases")


def recorded(case: str) -> dict[int, Any]:
    """Kafka's answers by version."""
    lines = map(json.loads, CORPUS.read_text().splitlines())
    found = [(first, last, answer) for name, first, last, answer in lines if name == case]
    return {version: answer for first, last, answer in found for version in range(first, last + 1)}


if __name__ == "__main__":
    record()
