"""Members of groups that say every request themselves, so that one sees what each answer was.

They keep what a client keeps (id, epoch or generation, partitions) and no connection, so they may go on with
another broker, as clients do when the coordinator moves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from protocol.codec.compiler import decode, encode
from protocol.codec.message import Message
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.primitives import Uuid
from tests.support.clients.wire_client import WireClient

WAIT_SECONDS: Final = 90
HEARTBEAT_VERSION: Final = 1
JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
BEAT_VERSION: Final = 4
NOT_YET: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
M = TypeVar("M", bound=Message)


def ask(address: str, cls: type[M], request: Message, version: int) -> M:
    """The answer, as soon as the coordinator is there and has read its log."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        with WireClient(address) as client:
            response = client.ask_for(cls, request, version)
            if getattr(response, "error_code", 0) not in NOT_YET or time.monotonic() > deadline:
                return response
            client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]), 4)
        time.sleep(0.05)


def described(address: str, group: str) -> ConsumerGroupDescribeResponse.DescribedGroup:
    """A consumer group."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        (found,) = ask(address, ConsumerGroupDescribeResponse, request, 1).groups
        if found.error_code not in NOT_YET or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


class NewerMember:
    """One that speaks the protocol of KIP-848."""

    def __init__(self, group: str, member_id: str, topic: str, instance_id: str | None = None) -> None:
        self.group, self.member_id, self.topic, self.instance_id = group, member_id, topic, instance_id
        self.epoch = 0
        self.owned: dict[Uuid, list[int]] = {}
        """What it works on."""
        self.given: dict[Uuid, list[int]] = {}
        """What it was told last."""

    def join(self, address: str) -> ConsumerGroupHeartbeatResponse:
        return self._send(address, self.join_request())

    def join_request(self) -> ConsumerGroupHeartbeatRequest:
        self.epoch, self.owned = 0, {}
        return self._request(
            rebalance_timeout_ms=60_000, subscribed_topic_names=[self.topic], topic_partitions=[]
        )

    def beat(self, address: str, *, holds_on: bool = False) -> ConsumerGroupHeartbeatResponse:
        return self._send(address, self.beat_request(holds_on=holds_on))

    def beat_request(self, *, holds_on: bool = False) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that says what it works on, after it has given up what it must, unless it holds on."""
        if not holds_on:
            self.owned = self.given
        owned = [ConsumerGroupHeartbeatRequest.TopicPartitions(*each) for each in self.owned.items()]
        return self._request(topic_partitions=owned)

    def leave(self, address: str, *, for_a_while: bool = False) -> ConsumerGroupHeartbeatResponse:
        return self._send(address, self.leave_request(for_a_while=for_a_while))

    def leave_request(self, *, for_a_while: bool = False) -> ConsumerGroupHeartbeatRequest:
        self.epoch = -2 if for_a_while else -1
        return self._request()

    @property
    def partitions(self) -> list[int]:
        return sorted(number for numbers in self.given.values() for number in numbers)

    def _request(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            **fields,
        )

    def _send(self, address: str, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        response = ask(address, ConsumerGroupHeartbeatResponse, request, HEARTBEAT_VERSION)
        self.hear(response)
        return response

    def hear(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.given = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}


class ClassicMember:
    """One that speaks the protocol with JoinGroup and SyncGroup; a leader gives shares by `shares`."""

    def __init__(self, group: str, topic: str, instance_id: str | None = None) -> None:
        self.group, self.topic, self.instance_id = group, topic, instance_id
        self.member_id, self.generation = "", -1
        self.partitions: list[int] = []

    def join(self, address: str) -> JoinGroupResponse:
        response = ask(address, JoinGroupResponse, self.join_request(), JOIN_VERSION)
        if self.needs_id(response):
            response = ask(address, JoinGroupResponse, self.join_request(), JOIN_VERSION)
        self.hear_join(response)
        return response

    def needs_id(self, response: JoinGroupResponse) -> bool:
        """Whether it has to join again, with the id that it was given."""
        if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            return False
        self.member_id = response.member_id
        return True

    def hear_join(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id

    def join_request(self) -> JoinGroupRequest:
        said = ConsumerProtocolSubscription(topics=[self.topic])
        if self.partitions:
            owned = ConsumerProtocolSubscription.TopicPartition(self.topic, self.partitions)
            said.owned_partitions = [owned]
        return JoinGroupRequest(
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=240_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", b"\0\1" + encode(said, 1))],
        )

    def sync(self, address: str, shares: Mapping[str, list[int]] | None = None) -> SyncGroupResponse:
        response = ask(address, SyncGroupResponse, self.sync_request(shares), SYNC_VERSION)
        self.hear_sync(response)
        return response

    def sync_request(self, shares: Mapping[str, list[int]] | None = None) -> SyncGroupRequest:
        """A leader gives everybody's shares, by member id."""
        return SyncGroupRequest(
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id, self._share(numbers))
                for member_id, numbers in (shares or {}).items()
            ],
        )

    def hear_sync(self, response: SyncGroupResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            self.partitions = share_of(response.assignment)

    def _share(self, numbers: list[int]) -> bytes:
        given = [ConsumerProtocolAssignment.TopicPartition(self.topic, numbers)]
        return b"\0\1" + encode(ConsumerProtocolAssignment(given), 1)

    def beat(self, address: str) -> ErrorCode:
        return ErrorCode(ask(address, HeartbeatResponse, self.beat_request(), BEAT_VERSION).error_code)

    def beat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id=self.generation,
        )


def share_of(blob: bytes) -> list[int]:
    """The partitions of what a leader has given to a member; none for one that has got nothing yet."""
    if not blob:
        return []
    given = decode(ConsumerProtocolAssignment, int.from_bytes(blob[:2]), blob[2:])
    return [number for each in given.assigned_partitions for number in each.partitions]


def commit_error(
    address: str, group: str, member_id: str, epoch: int, topic: str, partition: int, offset: int
) -> ErrorCode:
    """What the coordinator says to a commit of a member."""
    entry = OffsetCommitRequest.OffsetCommitRequestPartition(partition, offset)
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[entry])],
    )
    response = ask(address, OffsetCommitResponse, request, 9)
    return ErrorCode(response.topics[0].partitions[0].error_code)
