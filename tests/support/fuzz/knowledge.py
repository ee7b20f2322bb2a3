"""What a fuzzing client knows of the broker: names that it uses again and again, and what answers told it.

Requests that name what is really there get deep. So the pools of topics, groups, members, generations, fetch
sessions, producers and directories are fed by the answers, and bounded, the newest being kept.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any, Final, TypeVar

from protocol.codec.message import Message
from protocol.messages.create_topics import CreateTopicsResponse
from protocol.messages.describe_cluster import DescribeClusterResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from protocol.messages.describe_quorum import DescribeQuorumResponse
from protocol.messages.end_txn import EndTxnResponse
from protocol.messages.fetch import FetchResponse
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.metadata import MetadataResponse
from protocol.values import ZERO_UUID

T = TypeVar("T")

LASTING_TOPICS: Final = ("first", "second", "compact")
"""Made before the fuzzing begins, and not deleted by it on purpose."""
MADE_TOPICS: Final = tuple(f"made-{number}" for number in range(6))
"""Created and deleted all the time."""
GROUPS: Final = tuple(f"group-{number}" for number in range(5))
TRANSACTIONAL_IDS: Final = tuple(f"tx-{number}" for number in range(4))
INSTANCES: Final = tuple(f"instance-{number}" for number in range(3))
WATCHED_TOPIC: Final = "watched"
"""The watcher's own topic: nobody else knows of it."""
_KEPT: Final = 12


class Member:
    """A member of a group as JoinGroup told of it."""

    def __init__(self, group: str, member_id: str, generation: int, instance: str | None) -> None:
        self.group = group
        self.member_id = member_id
        self.generation = generation
        self.instance = instance


class Knowledge:
    """See the module. `learn` is given each answer that could be read."""

    def __init__(self) -> None:
        self.topic_ids: dict[str, bytes] = {}
        self.members: deque[Member] = deque(maxlen=_KEPT)
        self.sessions: deque[int] = deque([0], maxlen=_KEPT)
        self.producers: deque[tuple[int, int]] = deque([(-1, -1)], maxlen=_KEPT)
        self.transactions: dict[str, tuple[int, int]] = {}
        """Producers by transactional id, of those that `TRANSACTIONAL_IDS` names."""
        self.directories: deque[str] = deque(["/nowhere"], maxlen=_KEPT)
        self.directory_ids: deque[bytes] = deque([ZERO_UUID], maxlen=_KEPT)
        self.cluster_id = ""
        self.quorum_epoch = 1

    def topic(self, random_source: random.Random) -> str:
        pick = random_source.random()
        if pick < 0.45:
            return random_source.choice(LASTING_TOPICS)
        return "__consumer_offsets" if pick < 0.5 else random_source.choice(MADE_TOPICS)

    def topic_id(self, random_source: random.Random) -> bytes:
        name = self.topic(random_source)
        return self.topic_ids.get(name) or random_source.choice((*self.topic_ids.values(), ZERO_UUID))

    def group(self, random_source: random.Random) -> str:
        return random_source.choice(GROUPS)

    def member(self, random_source: random.Random) -> Member:
        if self.members and random_source.random() < 0.9:
            return random_source.choice(self.members)
        return Member(self.group(random_source), "", -1, None)

    def producer(self, random_source: random.Random) -> tuple[int, int]:
        return random_source.choice((*self.producers, *self.transactions.values()))

    def learn(self, said: dict[str, Any], answer: Message) -> None:
        """`said`: the plain fields at the top of the request."""
        match answer:
            case MetadataResponse():
                for topic in answer.topics:
                    if topic.name and topic.name != WATCHED_TOPIC:
                        self._learn_topic(topic.name, topic.topic_id)
            case CreateTopicsResponse():
                for made in answer.topics:
                    if made.error_code == 0:
                        self._learn_topic(made.name, made.topic_id)
            case JoinGroupResponse():
                group, instance = _text(said.get("group_id")), _text(said.get("group_instance_id"))
                if answer.member_id:
                    member = Member(group or "", answer.member_id, answer.generation_id, instance)
                    self.members.append(member)
            case FetchResponse() if answer.session_id:
                self.sessions.append(answer.session_id)
            case InitProducerIdResponse() | EndTxnResponse() if answer.producer_id >= 0:
                self._learn_producer(_text(said.get("transactional_id")), answer)
            case DescribeLogDirsResponse():
                self.directories.extend(result.log_dir for result in answer.results)
            case DescribeClusterResponse() if answer.error_code == 0:
                self.cluster_id = answer.cluster_id
            case DescribeQuorumResponse():
                self._learn_quorum(answer)

    def _learn_producer(
        self, transactional_id: str | None, answer: InitProducerIdResponse | EndTxnResponse
    ) -> None:
        producer = answer.producer_id, answer.producer_epoch
        if transactional_id in TRANSACTIONAL_IDS:
            self.transactions[transactional_id] = producer
        else:
            self.producers.append(producer)

    def _learn_topic(self, name: str, topic_id: bytes) -> None:
        if topic_id != ZERO_UUID and (name in self.topic_ids or len(self.topic_ids) < 40):
            self.topic_ids[name] = topic_id

    def _learn_quorum(self, answer: DescribeQuorumResponse) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                self.quorum_epoch = max(1, partition.leader_epoch)
                self.directory_ids.extend(voter.replica_directory_id for voter in partition.current_voters)


def _text(value: object) -> str | None:
    """A string that a request said: stories have it as text, the writer as bytes."""
    if isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None
