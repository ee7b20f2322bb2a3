"""AlterPartition requests of this broker to the controller: Kafka's DefaultAlterPartitionManager.

One request is under way at a time, with the changes that wait when it is sent, at most CHANGES_PER_REQUEST of
them; the rest follows with the next. A change waits until the controller has answered for its partition;
after an error of the whole request (NOT_CONTROLLER, STALE_BROKER_EPOCH), or no answer, it is sent again.
There is no time limit: a leader that cannot reach the controller must not act as if its ISR had changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from broker.replication.partition_state import NO_BROKER_EPOCH, LeaderAndIsr, TopicIdPartition
from config.ports import Clock, Timers
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.peer_channel import PeerChannel, PeerError

__all__ = ["AlterPartitionManager"]

_log = logging.getLogger("barnabas.replicas")

RETRY_MS: Final = 50

CHANGES_PER_REQUEST: Final = 1_000
"""A broker that restarts gives the leader of many partitions as many changes at once. A controller closes the
connection on a request that takes too much memory, and the same changes would be sent for ever."""

TROUBLE_TOLD_MS: Final = 10_000
"""How long requests may fail, as they do while a controller is elected, before the log warns of it. It warns
again each time that they have failed for as long."""

OnAnswer: TypeAlias = Callable[[LeaderAndIsr | ErrorCode], None]

_Request = AlterPartitionRequest


class AlterPartitionManager:
    """channel: to the active controller, and used by nobody else, so that no change waits behind a long
    request. broker_epoch: of this broker's registration, -1 before it has one."""

    def __init__(
        self,
        *,
        node_id: int,
        channel: PeerChannel,
        clock: Clock,
        timers: Timers,
        broker_epoch: Callable[[], int],
        request_timeout_ms: int,
    ) -> None:
        self._node_id = node_id
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._broker_epoch = broker_epoch
        self._request_timeout_ms = request_timeout_ms
        self._unanswered: dict[TopicIdPartition, tuple[LeaderAndIsr, OnAnswer]] = {}
        self._is_under_way = False
        self._is_closed = False
        self._names_epochs = True
        """Whether the controller knows a version with the epochs of the replicas (KIP-903)."""
        self._untold_since_ms: int | None = None
        """Since when requests have failed without a warning; None if the last one was answered."""

    def submit(self, partition: TopicIdPartition, wanted: LeaderAndIsr, on_answer: OnAnswer) -> bool:
        """Asks for this ISR. False if an earlier change of the partition is not answered yet.

        on_answer: is called once, with the controller's new state of the partition or with its error.
        """
        if partition in self._unanswered:
            return False
        self._unanswered[partition] = (wanted, on_answer)
        self._send()
        return True

    def close(self) -> None:
        """Sends nothing any more, and calls nobody."""
        self._is_closed = True
        self._unanswered.clear()

    def _send(self) -> None:
        if self._is_under_way or self._is_closed or not self._unanswered:
            return
        self._is_under_way = True
        sent = dict(islice(self._unanswered.items(), CHANGES_PER_REQUEST))
        epoch = self._broker_epoch()
        changes = {key: wanted for key, (wanted, _) in sent.items()}
        request = _request(self._node_id, epoch, changes, self._names_epochs)
        _log.debug("Sending AlterPartition to controller %s", request)

        def answered(response: Message | PeerError) -> None:
            self._answered(sent, epoch, response)

        self._channel.send(request, answered, timeout_ms=self._request_timeout_ms)

    def _answered(
        self,
        sent: dict[TopicIdPartition, tuple[LeaderAndIsr, OnAnswer]],
        epoch: int,
        response: Message | PeerError,
    ) -> None:
        if self._is_closed:
            return
        if isinstance(response, PeerError) and response.is_unsupported:
            self._names_epochs = not self._names_epochs
        if not isinstance(response, AlterPartitionResponse) or response.error_code:
            self._is_under_way = False
            _log_refusal(epoch, response, lasts=self._trouble_lasts())
            self._timers.call_at(self._clock.monotonic_ms() + RETRY_MS, self._send)
            return
        self._untold_since_ms = None
        outcomes = _outcomes(response)
        for key, item in sent.items():
            outcome = outcomes.get(key)
            if outcome is None:
                _log.warning(
                    "Partition %s-%d was sent but not included in the response", key[0].hex(), key[1]
                )
                if key in self._unanswered:  # it goes behind those that the request had no room for
                    self._unanswered[key] = self._unanswered.pop(key)
                continue
            if self._unanswered.get(key) is item:
                del self._unanswered[key]
            item[1](outcome)
        self._is_under_way = False  # not before: whoever is answered may ask again at once
        if any(self._unanswered.get(key) is item for key, item in sent.items()):
            self._timers.call_at(self._clock.monotonic_ms() + RETRY_MS, self._send)
        else:
            self._send()

    def _trouble_lasts(self) -> bool:
        """Notes that a request has failed. Returns whether requests have failed for so long that it is time
        for a warning."""
        now_ms = self._clock.monotonic_ms()
        if self._untold_since_ms is None:
            self._untold_since_ms = now_ms
        if now_ms - self._untold_since_ms < TROUBLE_TOLD_MS:
            return False
        self._untold_since_ms = now_ms
        return True


def _log_refusal(epoch: int, response: Message | PeerError, *, lasts: bool) -> None:
    """lasts: requests have failed for long, so that even what is ordinary at times is worth a warning."""
    if isinstance(response, AlterPartitionResponse):
        error = ErrorCode.of(response.error_code)
        if error == ErrorCode.STALE_BROKER_EPOCH:
            _log.warning("Broker had a stale broker epoch (%d), retrying.", epoch)
            return
        if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            _log.error("Broker is not authorized to send AlterPartition to controller")
            return
        level = logging.DEBUG if error == ErrorCode.NOT_CONTROLLER and not lasts else logging.WARNING
        _log.log(level, "The controller refused AlterPartition with %s, retrying.", error.name)
        return
    reason = response.reason if isinstance(response, PeerError) else f"it answered {response!r}"
    level = logging.WARNING if lasts else logging.DEBUG
    _log.log(level, "AlterPartition did not reach the controller (%s), retrying.", reason)


def _request(
    node_id: int, epoch: int, wanted: dict[TopicIdPartition, LeaderAndIsr], names_epochs: bool
) -> AlterPartitionRequest:
    """names_epochs: with the epochs of the replicas, as version 3 has them, or without, as version 2."""
    topics: dict[bytes, list[AlterPartitionRequest.PartitionData]] = {}
    for (topic_id, index), leader_and_isr in wanted.items():
        topics.setdefault(topic_id, []).append(
            _Request.PartitionData(
                index,
                leader_and_isr.leader_epoch,
                [] if names_epochs else list(leader_and_isr.isr),
                [_Request.BrokerState(*each) for each in leader_and_isr.isr_with_broker_epoch]
                if names_epochs
                else [],
                leader_and_isr.leader_recovery_state,
                leader_and_isr.partition_epoch,
            )
        )
    return _Request(node_id, epoch, [_Request.TopicData(*each) for each in topics.items()])


def _outcomes(response: AlterPartitionResponse) -> dict[TopicIdPartition, LeaderAndIsr | ErrorCode]:
    outcomes: dict[TopicIdPartition, LeaderAndIsr | ErrorCode] = {}
    for topic in response.topics:
        for told in topic.partitions:
            outcomes[topic.topic_id, told.partition_index] = (
                ErrorCode.of(told.error_code)
                if told.error_code
                else LeaderAndIsr(
                    told.leader_id,
                    told.leader_epoch,
                    told.leader_recovery_state,
                    tuple((each, NO_BROKER_EPOCH) for each in told.isr),
                    told.partition_epoch,
                )
            )
    return outcomes
