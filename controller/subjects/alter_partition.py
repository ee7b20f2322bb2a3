"""AlterPartition: the leader of a partition asks for another ISR (KIP-497).

A leader knows who is in sync; only the controller writes it down. It takes the wish of the broker that leads
in the newest leader epoch and knows the newest partition epoch, and nobody else's. A replica joins only while
its broker can be elected: registered in the very epoch in which it fetched (KIP-903), neither fenced nor
shutting down (KIP-841).

The checks come in Kafka's order. A leader that knows more than this controller is told NOT_CONTROLLER: most
likely another controller has been elected, and the leader should look for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from controller.metadata.image.brokers import BrokersImage
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.topics import (
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
    TopicImage,
)
from controller.metadata.metadata_version import at_level
from controller.subjects.leadership import Leadership, LeadershipRules
from controller.subjects.partition_change import is_reassigning
from controller.subjects.partitions import MOVES_PER_TURN
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.values import uuid_to_text

__all__ = ["Alterations"]

_log = logging.getLogger("barnabas.controller")

FIRST_VERSION_WITH_EPOCHS: Final = 3
"""Before, a leader names the replicas alone, and their epochs are not checked."""

NO_EPOCH: Final = -1

_Answer = AlterPartitionResponse
_Wish = AlterPartitionRequest.PartitionData
_State = AlterPartitionRequest.BrokerState


class Alterations:
    """One AlterPartition request. `decide` is called again while its decision is a part. So a broker that has
    come back to ten thousand partitions joins their ISRs in a few requests, without holding up the loop."""

    def __init__(
        self,
        request: AlterPartitionRequest,
        version: int,
        rules: Callable[[ClusterImage], LeadershipRules],
    ) -> None:
        """rules: those that are in force in an image."""
        self._request = request
        self._version = version
        self._rules = rules
        self._response = AlterPartitionResponse()
        self._left = self._wishes()

    def decide(self, image: ClusterImage, limit: int = MOVES_PER_TURN) -> Decision[AlterPartitionResponse]:
        """Looks at the next partitions, at most limit of them. Each has its own answer: an error code, or the
        partition as it is from now on.

        Raises STALE_BROKER_EPOCH for a broker that has registered again since, and UNKNOWN_SERVER_ERROR for a
        leader recovery state that does not exist.
        """
        broker = image.brokers.get(self._request.broker_id)
        if broker is None or broker.epoch != self._request.broker_epoch:
            raise ControllerError(ErrorCode.STALE_BROKER_EPOCH)
        leadership = Leadership(image, self._rules(image))
        records: list[Message] = []
        chosen = list(islice(self._left, limit))
        for told, wish in chosen:
            told.partitions.append(self._answer(image, leadership, told.topic_id, wish, records))
        return Decision(records, self._response, is_part=len(chosen) == limit)

    def _wishes(self) -> Iterator[tuple[AlterPartitionResponse.TopicData, _Wish]]:
        for asked in self._request.topics:
            told = _Answer.TopicData(asked.topic_id)
            self._response.topics.append(told)
            for wish in asked.partitions:
                yield told, wish

    def _answer(
        self,
        image: ClusterImage,
        leadership: Leadership,
        topic_id: bytes,
        wish: _Wish,
        records: list[Message],
    ) -> AlterPartitionResponse.PartitionData:
        topic = image.topics.by_id.get(topic_id)
        if topic is None:
            _log.info("Rejecting AlterPartition request for unknown topic ID %s", uuid_to_text(topic_id))
            return _refused(wish, ErrorCode.UNKNOWN_TOPIC_ID)
        broker_id, states = self._request.broker_id, _wanted(wish, self._version)
        error = _check(image.brokers, broker_id, topic, wish, states)
        if error:
            return _refused(wish, error)
        return _alter(image, broker_id, topic, wish, states, leadership, records)


def _wanted(wish: _Wish, version: int) -> Sequence[_State]:
    """The replicas of the wanted ISR, with NO_EPOCH where the version cannot tell their epochs."""
    if version >= FIRST_VERSION_WITH_EPOCHS:
        return wish.new_isr_with_epochs
    return [_State(broker_id, NO_EPOCH) for broker_id in wish.new_isr]


def _refused(wish: _Wish, error: ErrorCode) -> AlterPartitionResponse.PartitionData:
    return _Answer.PartitionData(wish.partition_index, error)


def _check(
    brokers: BrokersImage, broker_id: int, topic: TopicImage, wish: _Wish, states: Sequence[_State]
) -> ErrorCode:
    """The error code of a wish that may not be done, and a line in the log that says why."""
    name = f"{topic.name}-{wish.partition_index}"
    partition = topic.partitions.get(wish.partition_index)
    if partition is None:
        _log.info("Rejecting AlterPartition request for unknown partition %s", name)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = _misfit(broker_id, partition, wish) or _bad_isr(partition, wish, states)
    if found is None:
        ineligible = _ineligible(brokers, states)
        if not ineligible:
            return ErrorCode.NONE
        found = ErrorCode.INELIGIBLE_REPLICA, f"it specified ineligible replicas {', '.join(ineligible)}"
    error, why = found
    wanted = [state.broker_id for state in states]
    level = logging.DEBUG if error in _EXPECTED else logging.INFO
    _log.log(
        level,
        "Rejecting AlterPartition request from node %d for %s with the ISR %s because %s",
        broker_id, name, wanted, why,
    )  # fmt: skip
    return error


_EXPECTED: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors that occur whenever a leader or a controller changes."""


def _misfit(broker_id: int, partition: PartitionRegistration, wish: _Wish) -> tuple[ErrorCode, str] | None:
    """Whether the sender and this controller speak of the same state of the partition."""
    epochs = (
        f"the current leader epoch is {partition.leader_epoch}, not {wish.leader_epoch}, and the current "
        f"partition epoch is {partition.partition_epoch}, not {wish.partition_epoch}"
    )
    if wish.leader_epoch > partition.leader_epoch or wish.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER, epochs
    if wish.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH, epochs
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST, f"the current leader is {partition.leader}"
    if wish.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION, epochs
    return None


def _bad_isr(
    partition: PartitionRegistration, wish: _Wish, states: Sequence[_State]
) -> tuple[ErrorCode, str] | None:
    """Whether the wanted ISR is one that this partition could have."""
    isr = [state.broker_id for state in states]
    if not isr or len(set(isr)) != len(isr) or any(replica not in partition.replicas for replica in isr):
        return ErrorCode.INVALID_REQUEST, f"it specified an invalid ISR of the replicas {partition.replicas}"
    if partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST, "it specified an invalid ISR that doesn't include itself"
    if wish.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise ControllerError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Value {wish.leader_recovery_state} is not a valid leader recovery state",
        )
    if wish.leader_recovery_state == RECOVERING:
        if len(isr) > 1:
            return (
                ErrorCode.INVALID_REQUEST,
                "it specified more than one replica while recovering from an unclean election",
            )
        if partition.leader_recovery_state == RECOVERED:
            return (
                ErrorCode.INVALID_REQUEST,
                "the leader recovery state cannot change from RECOVERED to RECOVERING",
            )
    return None


def _ineligible(brokers: BrokersImage, states: Sequence[_State]) -> list[str]:
    """The replicas that may not be in an ISR now, each with the reason."""
    found = []
    for state in states:
        broker = brokers.get(state.broker_id)
        if broker is None:
            found.append(f"{state.broker_id} (not registered)")
        elif broker.in_controlled_shutdown:
            found.append(f"{state.broker_id} (shutting down)")
        elif broker.fenced:
            found.append(f"{state.broker_id} (fenced)")
        elif state.broker_epoch not in (NO_EPOCH, broker.epoch):
            found.append(
                f"{state.broker_id} (broker epoch mismatch: requested={state.broker_epoch} "
                f"VS expected={broker.epoch})"
            )
    return found


def _alter(
    image: ClusterImage,
    broker_id: int,
    topic: TopicImage,
    wish: _Wish,
    states: Sequence[_State],
    leadership: Leadership,
    records: list[Message],
) -> AlterPartitionResponse.PartitionData:
    """Adds the record of the change, and returns the partition as it is after it.

    A change that ends a reassignment may take the leadership from the sender. Then the change is made, and
    the sender is told NEW_LEADER_ELECTED: it must wait for the metadata before it asks again.
    """
    index = wish.partition_index
    partition = topic.partitions[index]
    change = leadership.change(
        topic,
        index,
        isr=tuple(state.broker_id for state in states),
        leader_recovery_state=wish.leader_recovery_state,
    )
    if change is not None:
        records.append(change)
        was_reassigning = is_reassigning(partition)
        for written in at_level(image, [change]):
            partition = partition.merge(written)  # type: ignore[arg-type]
        if change.leader not in (broker_id, NO_LEADER_CHANGE):
            _log.info(
                "AlterPartition request from node %d for %s-%d completed the ongoing partition reassignment "
                "and triggered a leadership change. Returning NEW_LEADER_ELECTED.",
                broker_id, topic.name, index,
            )  # fmt: skip
            return _refused(wish, ErrorCode.NEW_LEADER_ELECTED)
        if was_reassigning and not is_reassigning(partition):
            _log.info(
                "AlterPartition request from node %d for %s-%d completed the ongoing partition reassignment.",
                broker_id, topic.name, index,
            )  # fmt: skip
    return _Answer.PartitionData(
        index,
        ErrorCode.NONE,
        partition.leader,
        partition.leader_epoch,
        list(partition.isr),
        partition.leader_recovery_state,
        partition.partition_epoch,
    )
