"""The registration of a broker, its heartbeats and its controlled shutdown (KIP-631, KIP-841).

    state                         cause                                          next
    NOT_RUNNING                   start                                          STARTING
    STARTING                      registered, and that record has been replayed  RECOVERY
    RECOVERY                      a heartbeat's answer: it is unfenced           RUNNING
    STARTING to RUNNING           begin_controlled_shutdown                      PENDING_CONTROLLED_SHUTDOWN
    PENDING_CONTROLLED_SHUTDOWN   the controller agrees, or takes too long       SHUTTING_DOWN
    STARTING                      refused for good, or not registered in time    SHUTTING_DOWN, on_failure
    STARTING to RUNNING           a failed directory was not reported in time    SHUTTING_DOWN, on_failure
    any                           stop                                           SHUTTING_DOWN

Heartbeats are sent every broker.heartbeat.interval.ms, and at once when the broker has read the record of its
registration, is ready, has lost a log directory, has other cordoned directories than before or shuts down.
One request is under way at a time. A broker that was fenced because its heartbeats were missing is unfenced
by the next ones; it does not register again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import msgspec

from config.ports import Clock, RandomSource, Timer, Timers
from controller.metadata.image.brokers import BrokerEndpoint, VersionRange
from controller.metadata.random_ids import random_uuid
from protocol.codec.message import Message
from protocol.errors import ErrorCode, invariant
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from protocol.peer_channel import PeerChannel, PeerError
from protocol.values import uuid_to_text

__all__ = ["BrokerIdentity", "BrokerLifecycle", "BrokerState"]

FIRST_RETRY_MS: Final = 50
LONGEST_RETRY_MS: Final = 1_000
SHUTDOWN_HEARTBEAT_MS: Final = 50
NO_EPOCH: Final = -1

FINAL_REFUSALS: Final = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
"""Errors after which the registration is not tried again."""

REMEDIES: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION: "Each node needs a node.id of its own",
        ErrorCode.INVALID_REGISTRATION: "The active controller's log says why. A log directory that was "
        "copied from another node is one reason: format an empty one",
        ErrorCode.UNSUPPORTED_VERSION: "`barnabas config check --cluster` names the features in the way",
    }
)
"""What an operator can do about a registration that was refused."""

_log = logging.getLogger("barnabas.lifecycle")


class BrokerState(IntEnum):
    """Kafka's broker states, with the numbers that its metric shows."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class BrokerIdentity(msgspec.Struct, frozen=True):
    """What a broker tells the controller about itself when it registers.

    endpoints: the advertised listeners by name, with the ports that are really bound. previous_epoch: the
    broker epoch before a clean shutdown (from `.kafka_cleanshutdown`), else -1.
    """

    node_id: int
    cluster_id: str
    endpoints: Mapping[str, BrokerEndpoint]
    features: Mapping[str, VersionRange]
    log_dirs: Sequence[bytes]
    rack: str | None = None
    previous_epoch: int = NO_EPOCH


def _nothing() -> None:
    """For whoever need not know or say anything."""


class BrokerLifecycle:
    """The states of this broker, from start to end. epoch: the broker epoch, -1 until it has registered."""

    def __init__(
        self,
        identity: BrokerIdentity,
        *,
        channel: PeerChannel,
        clock: Clock,
        timers: Timers,
        random_source: RandomSource,
        metadata_offset: Callable[[], int],
        heartbeat_interval_ms: int,
        session_timeout_ms: int,
        registration_timeout_ms: int,
        on_state: Callable[[BrokerState], None],
        on_failure: Callable[[str], None],
        on_registered: Callable[[], None] = _nothing,
        cordoned_dirs: Callable[[], list[bytes] | None] = _nothing,
    ) -> None:
        """metadata_offset: up to where the broker has replayed the metadata log. registration_timeout_ms:
        initial.broker.registration.timeout.ms. on_registered: the epoch is known now. on_failure: gets a
        sentence for the operator when the broker has to end. cordoned_dirs: the cordoned log directories;
        None as long as the controller need not hear of them."""
        self.state = BrokerState.NOT_RUNNING
        self.epoch = NO_EPOCH
        self.fenced = True
        self._identity = identity
        self._incarnation_id = random_uuid(random_source)
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._metadata_offset = metadata_offset
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._registration_timeout_ms = registration_timeout_ms
        self._on_state = on_state
        self._on_failure = on_failure
        self._on_registered = on_registered
        self._cordoned_dirs = cordoned_dirs
        self._ready = False
        self._retry_ms = FIRST_RETRY_MS
        self._registration_deadline_ms = 0
        self._in_flight = False
        self._again = False
        self._telling_again = False
        self._timer: Timer | None = None
        self._shutdown_timer: Timer | None = None
        self._shutdown_deadline_ms = 0
        self._shutdown_silence_ms = 0
        self._on_gone: Callable[[bool], None] | None = None
        self._lost_dirs: dict[bytes, bool] = {}
        """The log directories that have failed since the start, and whether the controller knows of each."""
        self._told_dirs: tuple[bytes, ...] = ()
        """The failed log directories in the heartbeat that is under way."""

    # Called by the broker

    def start(self) -> None:
        """Begins to register. Called once."""
        invariant(self.state is BrokerState.NOT_RUNNING, "a broker starts once", state=self.state.name)
        self._registration_deadline_ms = self._clock.monotonic_ms() + self._registration_timeout_ms
        self._enter(BrokerState.STARTING)
        self._communicate()

    def metadata_advanced(self) -> None:
        """The broker has replayed more of the metadata log, perhaps the record of its registration."""
        if self.state is BrokerState.STARTING and self.epoch != NO_EPOCH and self._caught_up:
            self._enter(BrokerState.RECOVERY)
            self._communicate()

    def ready_to_unfence(self) -> None:
        """The logs are open and the listeners are bound: heartbeats ask to be unfenced from now on."""
        self._ready = True
        if self.state is BrokerState.RECOVERY:
            self._communicate()

    def register_again(self) -> None:
        """Sends the registration once more, with the same incarnation id: the metadata version has been
        raised, and its records hold more of it than before."""
        if self.epoch != NO_EPOCH and self.state is BrokerState.RUNNING and not self._telling_again:
            self._telling_again = True
            self._communicate()

    def directory_failed(self, directory_id: bytes, timeout_ms: int) -> None:
        """Reports a failed log directory with the heartbeats (KIP-858). A broker that cannot report it within
        timeout_ms (`log.dir.failure.timeout.ms`) shuts down."""
        self._lost_dirs.setdefault(directory_id, False)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._timers.call_at(deadline_ms, lambda: self._require_told(directory_id))
        if self.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            self._communicate()

    def cordoned_dirs_changed(self) -> None:
        """Tells the controller at once which log directories are cordoned (KIP-1066). A broker that has not
        registered yet tells it with its first heartbeats."""
        if self.epoch != NO_EPOCH and self.state is not BrokerState.SHUTTING_DOWN:
            self._communicate()

    def _require_told(self, directory_id: bytes) -> None:
        """Ends the broker if the controller does not know of the directory. One that shuts down ends anyway,
        when the controller has agreed or has been silent for too long."""
        is_ending = self.state in (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN)
        if not self._lost_dirs[directory_id] and not is_ending:
            self._fail(
                "Shutting down because couldn't communicate offline log dir "
                f"{uuid_to_text(directory_id)} with controllers"
            )

    def begin_controlled_shutdown(
        self, timeout_ms: int, on_gone: Callable[[bool], None], *, silence_ms: int | None = None
    ) -> None:
        """Asks the controller to elect other leaders for the partitions that this broker leads.

        on_gone: gets True when the controller has agreed to the shutdown, and False after timeout_ms, after
        silence_ms without an answer to a heartbeat, or at once if the broker is not registered.
        """
        if self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN) or self.epoch == NO_EPOCH:
            self.stop()
            on_gone(False)
            return
        self._on_gone = on_gone
        if self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            now_ms = self._clock.monotonic_ms()
            self._shutdown_silence_ms = timeout_ms if silence_ms is None else silence_ms
            self._shutdown_deadline_ms = now_ms + timeout_ms
            self._wait_for_agreement(now_ms)
            self._communicate()

    def _wait_for_agreement(self, now_ms: int) -> None:
        """Bounds the wait for the controller's agreement. Called when it begins, and at each answer."""
        if self._shutdown_timer is not None:
            self._shutdown_timer.cancel()
        deadline_ms = min(self._shutdown_deadline_ms, now_ms + self._shutdown_silence_ms)
        self._shutdown_timer = self._timers.call_at(deadline_ms, lambda: self._gone(False))

    def stop(self) -> None:
        """Sends nothing any more, and ignores the answer to the request that is under way."""
        for timer in (self._timer, self._shutdown_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._shutdown_timer = None
        if self.state is not BrokerState.SHUTTING_DOWN:
            self._enter(BrokerState.SHUTTING_DOWN)

    # One request is under way at a time

    @property
    def _caught_up(self) -> bool:
        return self._metadata_offset() >= self.epoch

    def _enter(self, state: BrokerState) -> None:
        if state is not self.state:
            self.state = state
            self._on_state(state)

    def _communicate(self) -> None:
        """Sends the registration until it is answered, then heartbeats. If a request is under way, the next
        one follows its answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if self._in_flight:
            self._again = True
            return
        self._in_flight = True
        if self.epoch == NO_EPOCH:
            self._channel.send(self._registration(), self._registered, timeout_ms=self._session_timeout_ms)
        elif self._telling_again:
            self._channel.send(self._registration(), self._told_again, timeout_ms=self._session_timeout_ms)
        else:
            self._channel.send(self._heartbeat(), self._answered, timeout_ms=self._session_timeout_ms)

    def _next_in(self, delay_ms: int) -> None:
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if self._again:
            self._again = False
            self._communicate()
            return
        self._timer = self._timers.call_at(self._clock.monotonic_ms() + delay_ms, self._communicate)

    def _retry_later(self) -> None:
        delay_ms = self._retry_ms
        self._retry_ms = min(2 * self._retry_ms, LONGEST_RETRY_MS)
        self._again = False
        self._next_in(delay_ms)

    # Registration

    def _registration(self) -> BrokerRegistrationRequest:
        me = self._identity
        return BrokerRegistrationRequest(
            broker_id=me.node_id,
            cluster_id=me.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerRegistrationRequest.Listener(
                    name=name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for name, e in me.endpoints.items()
            ],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=r.lowest, max_supported_version=r.highest
                )
                for name, r in me.features.items()
            ],
            rack=me.rack,
            log_dirs=[directory for directory in me.log_dirs if directory not in self._lost_dirs],
            previous_broker_epoch=me.previous_epoch,
        )

    def _registered(self, response: Message | PeerError) -> None:
        self._in_flight = False
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if isinstance(response, BrokerRegistrationResponse) and response.error_code == ErrorCode.NONE:
            self.epoch = response.broker_epoch
            self._retry_ms = FIRST_RETRY_MS
            self._on_registered()
            if self._caught_up and self.state is BrokerState.STARTING:
                self._enter(BrokerState.RECOVERY)
            self._again = True
            self._next_in(0)
            return
        reason, final = _refusal(response)
        if final:
            self._fail(
                f"The controller refused the registration of broker {self._identity.node_id}: {reason}"
            )
        elif self._clock.monotonic_ms() >= self._registration_deadline_ms:
            self._fail(
                f"Broker {self._identity.node_id} could not register within "
                f"{self._registration_timeout_ms} ms (initial.broker.registration.timeout.ms): {reason}"
            )
        else:
            if self._retry_ms == FIRST_RETRY_MS:
                _log.info("The broker is not registered yet, trying on: %s", reason)
            self._retry_later()

    def _told_again(self, response: Message | PeerError) -> None:
        self._in_flight = False
        self._telling_again = False
        if not isinstance(response, BrokerRegistrationResponse) or response.error_code:
            reason, _ = _refusal(response)
            _log.warning("The controller did not take the registration again: %s", reason)
        self._next_in(0)

    def _fail(self, sentence: str) -> None:
        self.stop()
        self._on_failure(sentence)

    # Heartbeats

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        leaving = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._told_dirs = tuple(self._lost_dirs)
        return BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._ready and not leaving,
            want_shut_down=leaving,
            offline_log_dirs=list(self._told_dirs),
            # A broker that has not caught up may not know yet what its configs are now.
            cordoned_log_dirs=self._cordoned_dirs() if self._caught_up else None,
        )

    def _answered(self, response: Message | PeerError) -> None:
        self._in_flight = False
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if not isinstance(response, BrokerHeartbeatResponse) or response.error_code:
            reason, _ = _refusal(response)
            _log.warning("The controller did not take a heartbeat, trying on: %s", reason)
            self._retry_later()
            return
        self._retry_ms = FIRST_RETRY_MS
        self._lost_dirs.update((directory, True) for directory in self._told_dirs)
        self.fenced = response.is_fenced
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self._gone(True)
            else:
                self._wait_for_agreement(self._clock.monotonic_ms())
                self._next_in(SHUTDOWN_HEARTBEAT_MS)
            return
        self.metadata_advanced()
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self._enter(BrokerState.RUNNING)
        if self._timer is None and not self._in_flight:
            self._next_in(self._heartbeat_interval_ms)

    def _gone(self, agreed: bool) -> None:
        on_gone, self._on_gone = self._on_gone, None
        self.stop()
        if on_gone is not None:
            on_gone(agreed)


def _refusal(response: Message | PeerError) -> tuple[str, bool]:
    """The reason for which a request was refused, and whether the broker gives up."""
    if isinstance(response, PeerError):
        return response.reason, False
    error = ErrorCode.of(getattr(response, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR))
    remedy = REMEDIES.get(error)
    sentence = f"{error.name}: {error.message}" + (f" {remedy}" if remedy else "")
    return sentence, error in FINAL_REFUSALS
