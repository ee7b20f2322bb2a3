"""Three whole nodes in one process and one thread, one of which loses its power in the middle of an append.

    python -m tests.simulation.three_nodes SEED …      one story for each seed, one after the other

Three controllers form a quorum, and the first node is the broker too. A client on a fourth machine creates a
topic, produces and reads through real frames; then the broker's power is cut while appends are under way, it
starts again from its disk, and the client reads what is there and goes on. Printed is what happened, with a
digest of every byte that arrived anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, Final

from broker.controller_channel.peer.tcp import TcpPeer
from broker.network.memory import RequestMemory
from broker.simulation.cluster.event_loop import EventLoop
from broker.simulation.cluster.memory_network import MemoryNetwork
from broker.simulation.cluster.surroundings import Machine
from config.broker_config import BrokerConfig
from config.limits import MIB
from config.loading import default_settings, layered, load
from controller.format import Formatter
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.peer_channel import PeerError
from protocol.records.builder import SimpleRecord, build_batch
from protocol.records.reader import batch_records
from storage.memory_files import Torn

CLUSTER_ID: Final = "uitV0ZJKSwi6ZntyNnO-kQ"
TOPIC: Final = "simulated"
DATA: Final = "/data"
LIMIT_MS: Final = 60_000
NODES: Final = (1, 2, 3)
QUORUM_PORT: Final = 9093
BROKER_PORT: Final = 9092
FIRST_BATCHES: Final = 20
BATCHES_AT_THE_CUT: Final = 8
RECORDS: Final = 3
MOST_CALLS_BEFORE_THE_CUT: Final = 20
"""After the helper thread was given the append."""


def node_config(number: int, brokers: Sequence[int] = (1,)) -> BrokerConfig:
    """All nodes are controllers; brokers: those that are brokers too."""
    listeners = f"CONTROLLER://node-{number}:{QUORUM_PORT}"
    is_broker = number in brokers
    settings = {
        "node.id": str(number),
        "process.roles": "broker,controller" if is_broker else "controller",
        "listeners": f"PLAINTEXT://node-{number}:{BROKER_PORT},{listeners}" if is_broker else listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each}@node-{each}:{QUORUM_PORT}" for each in NODES),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "log.dirs": DATA,
    }
    return load(layered(default_settings(settings))).config


class Client:
    """Asks a broker, from a machine of its own."""

    def __init__(self, story: Story, host: str = "node-1") -> None:
        self._story = story
        self.machine = Machine(story.network, f"client-of-{host}", story.seed)
        surroundings = self.machine.surroundings()
        self._peer = TcpPeer(
            host,
            BROKER_PORT,
            network=surroundings.network,
            clock=surroundings.clock,
            timers=surroundings.timers,
            memory=RequestMemory(16 * MIB),
            client_id="simulated-client",
        )

    def send(self, request: Message) -> list[Message | PeerError]:
        """The list in which the answer will be."""
        answers: list[Message | PeerError] = []
        self._peer.send(request, answers.append, timeout_ms=5_000)
        return answers

    def ask(self, request: Message) -> Any:
        answers = self.send(request)
        self._story.until(lambda: answers)
        return answers[0]


class Story:
    """What happens, in order. lines: what is worth telling of it."""

    brokers: Sequence[int] = (1,)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = EventLoop()
        self.network = MemoryNetwork(self.loop, seed)
        self.machines = [Machine(self.network, f"node-{number}", seed) for number in NODES]
        self.client = Client(self)
        self.topic_id = bytes(16)
        self.lines: list[str] = []
        self.acknowledged: list[int] = []
        """Base offsets that the broker has acknowledged."""

    def until(self, condition: Any) -> None:
        self.loop.run_until(condition, limit_ms=LIMIT_MS)

    def tell(self, line: str) -> None:
        self.lines.append(f"{self.loop.now_ns // 1_000_000:>6} ms  {line}")

    def start_all(self) -> None:
        """Formats and starts the nodes, until all are ready."""
        for number, machine in enumerate(self.machines, 1):
            config = node_config(number, self.brokers)
            Formatter(CLUSTER_ID, config, machine.files, machine.clock, machine.random).run(StringIO())
            machine.start(config, CLUSTER_ID)
        self.until(lambda: all(machine.ready_line for machine in self.machines))

    def run(self) -> None:
        self.start_all()
        self.tell(f"{self.machines[0].ready_line}")
        self.create_topic()
        for number in range(FIRST_BATCHES):
            answer = self.client.ask(self.batch(f"before-{number}"))
            self.acknowledged.append(base_offset(answer))
        self.tell(f"produced to offset {self.acknowledged[-1] + RECORDS - 1}")
        read = self.values()
        self.tell(f"read {len(read)} records, the last is {read[-1]}")
        self.cut_the_power()
        self.restart()
        self.stop()
        self.tell(f"{self.network.arrivals} arrivals, {self.loop.calls} calls, {self.network.digest}")

    def is_known(self) -> bool:
        """Whether the broker has heard of the topic."""
        metadata = self.client.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]))
        assert isinstance(metadata, MetadataResponse), metadata
        return metadata.topics[0].error_code == ErrorCode.NONE

    def create_topic(self) -> None:
        config = CreateTopicsRequest.CreatableTopicConfig("flush.messages", "5")
        topic = CreateTopicsRequest.CreatableTopic(TOPIC, 1, 1, configs=[config])
        response = self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        assert isinstance(response, CreateTopicsResponse), response
        assert response.topics[0].error_code == ErrorCode.NONE, response
        self.topic_id = response.topics[0].topic_id
        self.until(self.is_known)
        self.tell(f"created topic {self.topic_id.hex()}")

    def batch(self, name: str) -> ProduceRequest:
        records = [
            SimpleRecord(timestamp=self.client.machine.clock.wall_ms(), value=f"{name}.{each}".encode())
            for each in range(RECORDS)
        ]
        partition = ProduceRequest.PartitionProduceData(0, build_batch(records))
        data = ProduceRequest.TopicProduceData(TOPIC, self.topic_id, [partition])
        return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data])

    def values(self) -> list[str]:
        """All records of the topic, from its beginning to its high watermark."""
        found: list[str] = []
        while True:
            partition = FetchRequest.FetchPartition(0, fetch_offset=len(found), partition_max_bytes=MIB)
            topic = FetchRequest.FetchTopic(TOPIC, self.topic_id, [partition])
            response = self.client.ask(FetchRequest(topics=[topic], max_wait_ms=100))
            assert isinstance(response, FetchResponse), response
            (answer,) = response.responses[0].partitions
            assert answer.error_code == ErrorCode.NONE, answer
            if answer.high_watermark == len(found):
                return found
            assert isinstance(answer.records, memoryview), answer
            found += [(record.value or b"").decode() for record in batch_records(answer.records)]

    def cut_the_power(self) -> None:
        """While a helper thread writes or syncs an append, and answers are outstanding."""
        broker, segment = self.machines[0], f"{DATA}/{TOPIC}-0/{0:020}.log"
        asked = [self.client.send(self.batch("at the cut-0"))]
        self.until(lambda: broker.files.unsynced_bytes(segment) > 0)
        asked += [
            self.client.send(self.batch(f"at the cut-{number}")) for number in range(1, BATCHES_AT_THE_CUT)
        ]
        self.until(lambda: broker.appends_under_way)
        for _ in range(broker.random.below(MOST_CALLS_BEFORE_THE_CUT)):
            if broker.files.unsynced_bytes(segment) and not all(asked):
                self.loop.step()
        assert not all(asked)
        unsynced = broker.files.unsynced_bytes(segment)
        answered = [base_offset(answers[0]) for answers in asked if answers]
        broker.cut_power(lambda _path, unsynced_bytes: Torn(broker.random.between(0, unsynced_bytes)))
        self.tell(f"power cut: {unsynced} unsynced bytes, {len(answered)} of {len(asked)} answered")
        self.until(lambda: all(asked))
        self.loop.run_for(3_000)

    def restart(self) -> None:
        broker = self.machines[0]
        broker.start(node_config(1, self.brokers), CLUSTER_ID)
        self.until(lambda: broker.ready_line)
        self.tell(f"{broker.ready_line}")
        left = self.values()
        produced = [f"before-{batch}.{each}" for batch in range(FIRST_BATCHES) for each in range(RECORDS)]
        produced += [
            f"at the cut-{batch}.{each}" for batch in range(BATCHES_AT_THE_CUT) for each in range(RECORDS)
        ]
        assert left == produced[: len(left)], left
        self.tell(f"{len(left)} records are left, of {len(produced)} that were produced")
        answer = self.client.ask(self.batch("after"))
        assert base_offset(answer) == len(left)
        assert self.values() == [*left, *(f"after.{each}" for each in range(RECORDS))]
        self.tell("produced and read further")

    def stop(self) -> None:
        for machine in self.machines:
            assert machine.node is not None
            machine.node.stop()
            self.until(lambda: machine.has_stopped)  # noqa: B023
            machine.close()
        self.tell("stopped")


def base_offset(answer: Message | PeerError) -> int:
    assert isinstance(answer, ProduceResponse), answer
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NONE, partition
    return partition.base_offset


def run_stories(story_of: Callable[[int], Story], seeds: Sequence[str]) -> None:
    """Runs a story for each seed, and prints what it tells, even if it fails."""
    for seed in seeds:
        story = story_of(int(seed))
        try:
            story.run()
        finally:
            print("\n".join(story.lines))


if __name__ == "__main__":
    run_stories(Story, sys.argv[1:])
