"""The broker's life as its controller sees it: registration, heartbeats, and an orderly end (KIP-631,
KIP-841).

::

              start                     registered, and the metadata       ready_to_unfence, and
    NOT_RUNNING ──▶ STARTING ──────────────────────────────▶ RECOVERY ───────────────────────▶ RUNNING
                      │             log reached that record                the controller agrees   │
                      │ refused for good, or                                                       │
                      │ too long without an answer                     begin_controlled_shutdown   │
                      ▼                                                                            ▼
                   on_failure           SHUTTING_DOWN ◀── may go, or too long ── PENDING_CONTROLLED_SHUTDOWN

A heartbeat goes out every broker.heartbeat.interval.ms, and at once when there is news for the controller:
the broker has caught up, has become ready, wants to go. One request is under way at a time. A broker that
the controller fenced for its silence is unfenced by its next heartbeats; it need not register again.

Nothing here opens a socket or reads a clock by itself: requests go through a PeerChannel, time through ports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
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
"""Refusals of a registration that no waiting heals."""

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
    """What a broker says of itself when it registers.

    endpoints: those that clients are told, by listener name, with real ports. previous_epoch: that of the
    last life if it ended in order (from the clean marker), else -1.
    """

    node_id: int
    cluster_id: str
    endpoints: Mapping[str, BrokerEndpoint]
    features: Mapping[str, VersionRange]
    log_dirs: Sequence[bytes]
    rack: str | None = None
    previous_epoch: int = NO_EPOCH


class BrokerLifecycle:
    """One life. epoch is -1 until the registration is answered."""

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
    ) -> None:
        """metadata_offset: how far the broker has replayed and published. on_failure: the broker cannot
        start;
        the sentence is for the operator."""
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
        self._ready = False
        self._retry_ms = FIRST_RETRY_MS
        self._registration_deadline_ms = 0
        self._in_flight = False
        self._again = False
        self._telling_again = False
        self._timer: Timer | None = None
        self._shutdown_timer: Timer | None = None
        self._on_gone: Callable[[bool], None] | None = None
        self._lost_dirs: dict[bytes, bool] = {}
        """Log directories that failed in this life, and whether the controller has taken note."""
        self._told_dirs: tuple[bytes, ...] = ()
        """Those that the heartbeat under way tells of."""

    # What the node says

    def start(self) -> None:
        invariant(self.state is BrokerState.NOT_RUNNING, "a life begins once", state=self.state.name)
        self._registration_deadline_ms = self._clock.monotonic_ms() + self._registration_timeout_ms
        self._enter(BrokerState.STARTING)
        self._communicate()

    def metadata_advanced(self) -> None:
        """The loader has published more; matters while the broker waits for its own registration."""
        if self.state is BrokerState.STARTING and self.epoch != NO_EPOCH and self._caught_up:
            self._enter(BrokerState.RECOVERY)
            self._communicate()

    def ready_to_unfence(self) -> None:
        """Logs are open, listeners bound: clients may come."""
        self._ready = True
        if self.state is BrokerState.RECOVERY:
            self._communicate()

    def register_again(self) -> None:
        """The cluster could not hold all of this broker's registration until now: the same life tells it once
        more."""
        if self.epoch != NO_EPOCH and self.state is BrokerState.RUNNING and not self._telling_again:
            self._telling_again = True
            self._communicate()

    def directory_failed(self, directory_id: bytes, timeout_ms: int) -> None:
        """The controller must know (KIP-858); a broker that cannot tell it in time ends
        (`log.dir.failure.timeout.ms`)."""
        self._lost_dirs.setdefault(directory_id, False)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._timers.call_at(deadline_ms, lambda: self._require_told(directory_id))
        if self.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            self._communicate()

    def _require_told(self, directory_id: bytes) -> None:
        if not self._lost_dirs[directory_id] and self.state is not BrokerState.SHUTTING_DOWN:
            self._fail(
                "Shutting down because couldn't communicate offline log dir "
                f"{uuid_to_text(directory_id)} with controllers"
            )

    def begin_controlled_shutdown(self, timeout_ms: int, on_gone: Callable[[bool], None]) -> None:
        """Asks the controller to move leaderships away. on_gone: True when it agreed, False after the
        timeout, or
        at once when it does not know this broker."""
        if self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN) or self.epoch == NO_EPOCH:
            self.stop()
            on_gone(False)
            return
        self._on_gone = on_gone
        if self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            deadline_ms = self._clock.monotonic_ms() + timeout_ms
            self._shutdown_timer = self._timers.call_at(deadline_ms, lambda: self._gone(False))
            self._communicate()

    def stop(self) -> None:
        """No more requests; answers under way are ignored."""
        for timer in (self._timer, self._shutdown_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._shutdown_timer = None
        if self.state is not BrokerState.SHUTTING_DOWN:
            self._enter(BrokerState.SHUTTING_DOWN)

    # One request at a time

    @property
    def _caught_up(self) -> bool:
        return self._metadata_offset() >= self.epoch

    def _enter(self, state: BrokerState) -> None:
        if state is not self.state:
            self.state = state
            self._on_state(state)

    def _communicate(self) -> None:
        """Sends what is due now: the registration until it is answered, then heartbeats."""
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
            if self._caught_up:
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
    """Why a request was not taken, and whether that is final."""
    if isinstance(response, PeerError):
        return response.reason, False
    error = ErrorCode.of(getattr(response, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR))
    return f"{error.name}: {error.message}", error in FINAL_REFUSALS
