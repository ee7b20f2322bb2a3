"""Registration, heartbeats and fencing of brokers (KIP-631, KIP-841).

::

                register
    (unknown) ───────────▶ FENCED ──heartbeat: caught up, no wish to stay fenced──▶ UNFENCED
                             ▲ │                                                       │
        session over,        │ │ want_shut_down                     want_shut_down     │
        want_fence  ─────────┘ │                                                       ▼
        (from UNFENCED         └───────────────▶ SHUTDOWN_NOW ◀── no leaderships ── CONTROLLED_SHUTDOWN
         or CONTROLLED_SHUTDOWN)                                     left, all others know it

FENCED, UNFENCED and CONTROLLED_SHUTDOWN are in the image; SHUTDOWN_NOW is the answer "you may go now", given
together with the fence.

A registration of another incarnation under a living session is refused: two processes would share an id. The
epoch of a registration is the offset of its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from itertools import islice
from typing import Final

from controller.metadata.image.brokers import BrokerRegistration, VersionRange, is_reserved_directory
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.features import KRAFT_VERSION, METADATA_VERSION
from controller.metadata.metadata_version import CORDONED_LEVEL, DIRECTORIES_LEVEL
from controller.subjects.leadership import LeadershipRules
from controller.subjects.partitions import (
    MOVES_PER_TURN,
    broker_departs,
    broker_died,
    elect,
    leads_anything,
    leaves_directories,
    waiting_for,
)
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.metadata_log.registrations import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

UNKNOWN_EPOCH: Final = -2
"""The epoch of a broker that was not registered; no broker names it."""

__all__ = [
    "BrokerControlState",
    "fence_broker",
    "heartbeat",
    "next_state",
    "register_broker",
    "state_of",
    "unregister_broker",
]


class BrokerControlState(Enum):
    """The states of a broker between its registration and its end."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def state_of(broker: BrokerRegistration) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    return (
        BrokerControlState.CONTROLLED_SHUTDOWN
        if broker.in_controlled_shutdown
        else BrokerControlState.UNFENCED
    )


def register_broker(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    kraft_version: int,
    has_session: bool,
    next_offset: int,
    tells_clean_shutdown: bool,
    rules: LeadershipRules,
) -> Decision[BrokerRegistrationResponse]:
    """kraft_version: the one in force, which is in the log and not in the image. next_offset: the offset of
    the first record that this decision returns. has_session: the broker of this
    id that is registered now is alive. tells_clean_shutdown: the version of the request can name the broker
    epoch before a clean shutdown (KIP-966).

    Raises what Kafka answers to a bad registration. The decision may be a part.
    """
    existing = image.brokers.get(request.broker_id)
    _check_registration(image, request, existing, cluster_id, has_session)
    _check_features({**image.features.levels, KRAFT_VERSION: kraft_version}, request)
    same = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[Message] = []
    if not same:
        former_epoch = UNKNOWN_EPOCH if existing is None else existing.epoch
        was_clean = not tells_clean_shutdown or former_epoch == request.previous_broker_epoch
        departs = broker_departs if was_clean else broker_died
        records = departs(image, request.broker_id, rules)
        if len(records) >= MOVES_PER_TURN:
            return Decision(records, BrokerRegistrationResponse(), is_part=True)
    epoch = next_offset + len(records)
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in request.listeners
        ],
        features=[
            RegisterBrokerRecord.BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=sorted(request.log_dirs),
    )
    if existing is not None and same:
        # A repeated request of the same life: an answer was lost, nothing starts over.
        record.broker_epoch = epoch = existing.epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    records.append(record)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _check_registration(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    existing: BrokerRegistration | None,
    cluster_id: str,
    has_session: bool,
) -> None:
    if request.cluster_id != cluster_id:
        raise ControllerError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if existing is not None and has_session and existing.incarnation_id != request.incarnation_id:
        raise ControllerError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id {request.broker_id}",
        )
    if request.is_migrating_zk_broker:
        raise ControllerError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers."
        )
    if image.features.metadata_version >= DIRECTORIES_LEVEL:
        _check_directories(image, request)


def _check_features(finalized: Mapping[str, int], request: BrokerRegistrationRequest) -> None:
    """Checks that a broker can run the finalized feature levels (KIP-584). Raises what Kafka answers
    otherwise."""
    offered = {
        f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in request.features
    }
    if METADATA_VERSION not in offered:
        raise ControllerError(
            ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'"
        )
    for name, level in finalized.items():
        known = offered.get(name, VersionRange(0, 0))
        if not known.covers(level):
            raise ControllerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of "
                f"{name}. The broker wants a version between {known.lowest} and {known.highest}, inclusive.",
            )


def _check_directories(image: ClusterImage, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise ControllerError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(is_reserved_directory(directory) for directory in request.log_dirs):
        raise ControllerError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(dict.fromkeys(request.log_dirs)) != len(request.log_dirs):
        raise ControllerError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in image.brokers.by_id.values():
        if broker.id == request.broker_id:
            continue
        if any(directory in broker.log_dirs for directory in request.log_dirs):
            raise ControllerError(
                ErrorCode.INVALID_REGISTRATION,
                f"Broker {broker.id} is already registered with a directory of this request",
            )


def next_state(
    broker: BrokerRegistration, request: BrokerHeartbeatRequest, *, leads: bool, handed_over: bool
) -> BrokerControlState:
    """leads: it leads a partition yet. handed_over: all active brokers have seen its leaderships move
    away."""
    state = state_of(broker)
    if state is BrokerControlState.FENCED:
        if request.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= broker.epoch
        return (
            BrokerControlState.UNFENCED if caught_up and not request.want_fence else BrokerControlState.FENCED
        )
    if state is BrokerControlState.UNFENCED:
        if request.want_fence:
            return BrokerControlState.SHUTDOWN_NOW if request.want_shut_down else BrokerControlState.FENCED
        if request.want_shut_down:
            return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
        return BrokerControlState.UNFENCED
    return (
        BrokerControlState.SHUTDOWN_NOW
        if not leads and handed_over
        else BrokerControlState.CONTROLLED_SHUTDOWN
    )


def heartbeat(
    image: ClusterImage,
    request: BrokerHeartbeatRequest,
    *,
    handed_over: bool,
    rules: LeadershipRules,
) -> Decision[BrokerHeartbeatResponse]:
    """Handles a broker's heartbeat: fences or unfences it, or lets it shut down. The decision may be a part.

    Raises STALE_BROKER_EPOCH, for an unknown broker too, as Kafka does.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise ControllerError(ErrorCode.STALE_BROKER_EPOCH)
    leads = request.want_shut_down and leads_anything(image, broker.id)
    state = next_state(broker, request, leads=leads, handed_over=handed_over)
    records, is_part = _transition(image, broker, state, rules)
    if not is_part:
        more, is_part = _directories(image, broker, request, rules)
        records = [*records, *more]
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=state in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
        should_shut_down=state is BrokerControlState.SHUTDOWN_NOW,
    )
    return Decision(records, response, is_part)


def _transition(
    image: ClusterImage, broker: BrokerRegistration, state: BrokerControlState, rules: LeadershipRules
) -> tuple[list[Message], bool]:
    """The records of a transition, and whether they are a part."""
    before = state_of(broker)
    if state is BrokerControlState.CONTROLLED_SHUTDOWN:
        records: list[Message] = []
        if before is not state:
            records.append(_change(broker, in_controlled_shutdown=1))
        moves = broker_departs(image, broker.id, rules)
        return [*records, *moves], len(moves) >= MOVES_PER_TURN
    if state is before or (before is BrokerControlState.FENCED and state is BrokerControlState.SHUTDOWN_NOW):
        return [], False
    if state is BrokerControlState.UNFENCED:
        waiting = islice(waiting_for(image, broker.id), MOVES_PER_TURN)
        elected = elect(image, waiting, rules, arriving=broker.id)
        return [_change(broker, fenced=-1), *elected], False
    fencing = fence_broker(image, broker, rules)
    return list(fencing.records), fencing.is_part


def _change(
    broker: BrokerRegistration, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def _directories(
    image: ClusterImage,
    broker: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    rules: LeadershipRules,
) -> tuple[list[Message], bool]:
    """The records for directories that have gone offline on the broker (KIP-858) or are cordoned
    (KIP-1066)."""
    lost = tuple(directory for directory in request.offline_log_dirs if directory in broker.log_dirs)
    cordoned = request.cordoned_log_dirs
    newly_cordoned = (
        image.features.metadata_version >= CORDONED_LEVEL
        and cordoned is not None
        and tuple(cordoned) != (broker.cordoned_log_dirs or ())
    )
    if not lost and not newly_cordoned:
        return [], False
    moves = leaves_directories(image, broker.id, lost, rules) if lost else []
    if len(moves) >= MOVES_PER_TURN:
        return moves, True
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    if lost:
        change.log_dirs = [directory for directory in broker.log_dirs if directory not in lost]
    if newly_cordoned:
        change.cordoned_log_dirs = cordoned
    return [*moves, change], False


def fence_broker(image: ClusterImage, broker: BrokerRegistration, rules: LeadershipRules) -> Decision[None]:
    """Takes leaderships and ISR memberships away from a broker, then fences it, so that clients learn of the
    new leaders first. The decision may be a part."""
    moves = broker_departs(image, broker.id, rules)
    if len(moves) >= MOVES_PER_TURN:
        return Decision(moves, None, is_part=True)
    return Decision([*moves, _change(broker, fenced=1)], None)


def unregister_broker(
    image: ClusterImage, request: UnregisterBrokerRequest, rules: LeadershipRules
) -> Decision[UnregisterBrokerResponse]:
    """Forgets a broker, alive or not; partitions lose it as leader and from their ISRs first. The decision
    may be a part."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        sentence = f"Broker ID {request.broker_id} is not currently registered"
        response = UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=sentence
        )
        return Decision((), response)
    moves = broker_departs(image, broker.id, rules)
    if len(moves) >= MOVES_PER_TURN:
        return Decision(moves, UnregisterBrokerResponse(), is_part=True)
    gone = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return Decision([*moves, gone], UnregisterBrokerResponse())
