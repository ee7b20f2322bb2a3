"""The controller: requests in, records out, answers when the records are committed.

    request ─▶ subject(newest image) ─▶ (records, response)
                                           │         │ waits
                          log.append ◀─────┘         │
                               │ replay: newest image│
                               ▼                     ▼
                          high watermark ──────▶ committed image, answer

All of it happens on the loop, one decision after the other, so a subject never sees half of another's work.
Only the active controller (the log's leader) decides; the others follow the log and answer NOT_CONTROLLER.

What a decision wrote is one batch, or a metadata transaction where it is too large for one (`appends`), at
the finalized `metadata.version`. When nothing is appended for a while, a NoOp record is (`idle`).

When it becomes active on an empty log it writes the bootstrap records as one metadata transaction, as Kafka
does; a transaction that an earlier leader left open is aborted. Then it registers itself (KIP-919).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from config.broker_config import BrokerConfig
from config.ports import Clock, RandomSource, Timer, Timers
from controller.appends import appends
from controller.election_watch import ElectionWatch
from controller.idle import IdleWatch
from controller.leader_tasks import LeaderTasks
from controller.metadata.image.brokers import BrokerEndpoint, BrokerRegistration, VersionRange
from controller.metadata.image.cluster_image import ClusterImage, ImageDelta
from controller.metadata.image.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION, FeaturesImage
from controller.metadata.image.replayer import MetadataBatch
from controller.metadata.log import LeaderAndEpoch, MetadataLog, NotLeader, SnapshotId
from controller.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    LATEST_METADATA_VERSION,
    TRANSACTIONS_LEVEL,
    at_level,
)
from controller.metadata.random_ids import random_uuid
from controller.metadata.supported_features import (
    SUPPORTED_FEATURES,
    UnsupportedCluster,
    unsupported_levels,
    way_back,
)
from controller.raft.node import VersionChangeRefused
from controller.snapshotting import SnapshotSchedule
from controller.state_machine import ImageTimeline
from controller.subjects import brokers as broker_subject
from controller.subjects.configs import ConfigRules
from controller.subjects.controllers import register_controller, registration_request
from controller.subjects.feature_updates import (
    one_min_insync_replicas,
    refused_for_all,
    requested_updates,
    update_features,
)
from controller.subjects.liveness import BrokerLiveness
from controller.subjects.mutation_quota import MutationQuota
from controller.subjects.producer_ids import allocate_producer_ids
from controller.subjects.result import ControllerError, Decision
from controller.subjects.topics import delete_topics
from protocol.codec.message import Message
from protocol.errors import EndsProcess, ErrorCode, InvariantViolated, invariant
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.metadata_log.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from protocol.serving.pending import Pending

__all__ = ["QuorumController"]

_log = logging.getLogger("barnabas.controller")

R = TypeVar("R")

BOOTSTRAP_TRANSACTION: Final = "Bootstrap records"

CLEAN_SHUTDOWN_SINCE: Final = 3
"""The first version of BrokerRegistration that names the broker epoch before a clean shutdown."""

_log = logging.getLogger("barnabas.controller")


class QuorumController:
    """The controller of one node. `start` replays the log, and the leader of the quorum becomes the active
    controller."""

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        log: MetadataLog,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        random_source: RandomSource,
        bootstrap_records: Sequence[Message],
        endpoints: Mapping[str, BrokerEndpoint],
    ) -> None:
        """endpoints: the addresses of this controller, by listener name. bootstrap_records: the records that
        are written into an empty log."""
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.log = log
        self.rules = ConfigRules(config)
        self._config = config
        self._clock = clock
        self._timers = timers
        self.random_source = random_source
        self._bootstrap_records = bootstrap_records
        self._endpoints = endpoints
        self._incarnation_id = random_uuid(random_source)
        self._timeline = ImageTimeline(self._committed)
        self._active_epoch: int | None = None
        self._liveness = BrokerLiveness(config.integer("broker.session.timeout.ms"))
        self._session_timer: Timer | None = None
        self._snapshots = SnapshotSchedule(log, config, clock, timers)
        self._idle = IdleWatch(
            config.integer("metadata.max.idle.interval.ms"),
            clock,
            timers,
            lambda: self._append([NoOpRecord()]),
        )
        self._leader_tasks = LeaderTasks(
            config,
            clock,
            timers,
            newest=lambda: self._timeline.newest,
            rules=self.rules.leadership,
            decide=lambda decide: self._unasked(decide),
        )
        self.elections = ElectionWatch()
        self._following = False
        self._supported = FeaturesImage()
        """The last committed levels that were looked at, all of which are supported."""
        self.timed_out_heartbeats = 0
        """The number of brokers that were fenced because their heartbeats were missing."""
        self._observers: list[Callable[[ClusterImage, ImageDelta], None]] = []

    # The state

    @property
    def image(self) -> ClusterImage:
        """The committed state. All that leaves this node is read from it."""
        return self._timeline.committed

    @property
    def newest(self) -> ClusterImage:
        """The state with all appended records, committed or not. Decisions are made by it."""
        return self._timeline.newest

    @property
    def is_active(self) -> bool:
        return self._active_epoch is not None

    def broker_silences_ms(self) -> Mapping[int, int]:
        """How long ago the active controller had the last heartbeat of each broker; empty on the others."""
        return self._liveness.silences_ms(self._clock.monotonic_ms())

    @property
    def supported_features(self) -> Mapping[str, VersionRange]:
        return SUPPORTED_FEATURES

    def on_image(self, observer: Callable[[ClusterImage, ImageDelta], None]) -> None:
        """Calls `callback` with every image that becomes committed from now on, and with what has changed.
        After a lost leadership, and for an image that was loaded from a snapshot, it is called with an empty
        delta."""
        self._observers.append(observer)

    def _committed(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.features is not None and self.is_active:
            self._register_itself()
        if self._following:
            self.elections.committed(delta, tells=self.is_active)
        self._tell(image, delta)

    def _tell(self, image: ClusterImage, delta: ImageDelta | None = None) -> None:
        """Calls the listeners. Without a delta they must look at the image as a whole."""
        delta = ImageDelta(image) if delta is None else delta
        for observer in self._observers:
            observer(image, delta)

    # Following the log

    def start(self) -> None:
        """Raises UnsupportedCluster if the log holds something that does not work here."""
        self.log.register(self)
        self._following = True

    def load_snapshot(self, snapshot: SnapshotId, image: ClusterImage) -> None:
        self._timeline.load(image)
        self._tell(image)

    def commit(self, batch: MetadataBatch) -> None:
        self._timeline.commit(batch)
        if self._following and not self._timeline.in_transaction:
            self._snapshots.committed(self._timeline.committed)
        self._look_at_levels()

    def _look_at_levels(self) -> None:
        """Raises UnsupportedCluster if this release cannot follow the cluster any further. What it reads on
        its way there may have been made good since: a snapshot, or the first records of the log, may hold a
        level that has been lowered for the sake of this node."""
        features = self._timeline.committed.features
        if self._following and features != self._supported and self.log.is_caught_up:
            self._refuse_unsupported(features)
            self._supported = features

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        if leader.leader_id == self.node_id:
            self._activate(leader.epoch)
        elif self._active_epoch is not None:
            self._resign()
            self._tell(self._timeline.committed)  # its own registration may be among what is lost

    def _activate(self, epoch: int) -> None:
        self._refuse_unsupported(self._timeline.newest.features)
        self._active_epoch = epoch
        if self._timeline.in_transaction:
            self._append([AbortTransactionRecord(reason="Failover")])
        if self._timeline.newest.is_empty:
            self._bootstrap()
        now_ms = self._clock.monotonic_ms()
        self._liveness.clear()
        for broker in self._timeline.newest.brokers.unfenced():
            self._liveness.grace(broker.id, broker.epoch, now_ms)
        self._arm_session_timer()
        self._idle.start()
        self._leader_tasks.start()
        self._register_itself()

    def _register_itself(self) -> None:
        """Registers this controller when it becomes active, and when the metadata version is raised to one
        that has registrations of controllers."""
        self._append(register_controller(self._timeline.newest, self.registration()).records)

    def registration(self) -> ControllerRegistrationRequest:
        """The request with which this controller registers."""
        return registration_request(
            self.node_id, self._incarnation_id, self._endpoints, self.supported_features
        )

    @property
    def must_be_registered(self) -> bool:
        """Whether this controller is not the active one, and the committed metadata does not hold its
        registration since its start."""
        if self.is_active or self.image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return False
        known = self.image.controllers.by_id.get(self.node_id)
        return known is None or known.record.incarnation_id != self._incarnation_id

    def _bootstrap(self) -> None:
        levels = {
            record.name: record.feature_level
            for record in self._bootstrap_records
            if isinstance(record, FeatureLevelRecord) and record.feature_level > 0
        }
        if METADATA_VERSION not in levels:
            raise UnsupportedCluster(
                "The metadata log is empty and there are no bootstrap records with a metadata.version. "
                "Format the storage directory first: barnabas storage format"
            )
        self._refuse_unsupported(FeaturesImage(levels))
        records = self._bootstrap_records
        if levels.get(ELIGIBLE_LEADER_REPLICAS):
            minimum = self.rules.static_min_insync_replicas
            records = [*records, *one_min_insync_replicas(self._timeline.newest, minimum)]
        if levels[METADATA_VERSION] >= TRANSACTIONS_LEVEL:
            begin, end = BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION), EndTransactionRecord()
            records = [begin, *records, end]
        self._append(records)

    def _refuse_unsupported(self, features: FeaturesImage) -> None:
        sentences = unsupported_levels(features, self.supported_features)
        if sentences:
            command = way_back(features, self.supported_features, _bootstrap_option(self._config))
            raise UnsupportedCluster(
                f"This cluster needs another release: {'; '.join(sentences)}. Start it with the release that "
                f"finalized these levels, and then, for it to work here: {command}"
            )

    def _resign(self) -> None:
        self._active_epoch = None
        self._idle.stop()
        self._leader_tasks.stop()
        self._liveness.clear()
        if self._session_timer is not None:
            self._session_timer.cancel()
            self._session_timer = None
        self._timeline.revert()

    def shut_down(self) -> None:
        """Makes no more decisions. Pending answers become NOT_CONTROLLER."""
        self._snapshots.stop()
        if self._active_epoch is not None:
            self._resign()

    # Decisions

    def _append(self, records: Sequence[Message]) -> None:
        if not records:
            return
        epoch = self._active_epoch
        invariant(epoch is not None, "only the active controller appends", node_id=self.node_id)
        image = self._timeline.newest
        level = image.features.metadata_version or LATEST_METADATA_VERSION
        max_bytes = self._config.integer("internal.metadata.max.batch.size.in.bytes")
        appended = 0
        for part in appends(list(at_level(image, records)), level, max_bytes=max_bytes):
            try:
                batch = self.log.append(-1 if epoch is None else epoch, part, metadata_version=level)
                appended += 1
                self._timeline.append(batch)
            except EndsProcess:
                raise
            except Exception as failure:
                if appended:
                    raise InvariantViolated("what was appended can be replayed, and be ended") from failure
                raise
        self._idle.appended()

    def decide(
        self, decide: Callable[[ClusterImage], Decision[R]], refuse: Callable[[ErrorCode], R]
    ) -> Pending[R]:
        """Appends the records that a subject has decided, and returns its response as a pending one. All
        handlers of subjects call this."""
        pending: Pending[R] = Pending()
        self._decide(decide, refuse, pending)
        return pending

    def _decide(
        self,
        decide: Callable[[ClusterImage], Decision[R]],
        refuse: Callable[[ErrorCode], R],
        pending: Pending[R],
    ) -> None:
        if self._active_epoch is None:
            pending.complete(refuse(ErrorCode.NOT_CONTROLLER))
            return
        try:
            decision = decide(self._timeline.newest)
        except ControllerError as fault:
            pending.complete(refuse(fault.code))
            return
        self._append(decision.records)
        if decision.is_part:
            self._timers.call_soon(lambda: self._decide(decide, refuse, pending))
            return
        self._timeline.when_committed(
            lambda: pending.complete(decision.response),
            lambda: pending.complete_by(lambda: refuse(ErrorCode.NOT_CONTROLLER)),
        )

    def _unasked(self, decide: Callable[[ClusterImage], Decision[None]]) -> None:
        """Appends a decision that the controller makes by itself, so that nobody waits for an answer."""
        self.decide(decide, lambda code: None)

    # Features

    def update_features(
        self, request: UpdateFeaturesRequest, version: int, success: UpdateFeaturesResponse
    ) -> Pending[UpdateFeaturesResponse]:
        """version: that of the request. success: the answer if all updates are done."""

        def decide(image: ClusterImage) -> Decision[UpdateFeaturesResponse]:
            try:
                change = update_features(
                    image,
                    requested_updates(request, version),
                    node_id=self.node_id,
                    supported=self.supported_features,
                    static_voters=[voter.node_id for voter in self._config.quorum_voters],
                    kraft_version=self.log.kraft_version,
                    min_insync_replicas=self.rules.static_min_insync_replicas,
                )
                if change.kraft_version is not None:
                    self._raise_kraft_version(change.kraft_version, validate_only=request.validate_only)
            except ControllerError as fault:
                refusal = UpdateFeaturesResponse(error_code=fault.code, error_message=fault.message)
                return Decision((), refusal)
            return Decision(() if request.validate_only else change.records, success)

        return self.decide(
            decide, lambda code: UpdateFeaturesResponse(error_code=code, error_message=code.message)
        )

    def _raise_kraft_version(self, version: int, *, validate_only: bool) -> None:
        """Raises ControllerError with the quorum's reason if the quorum refuses."""
        epoch = -1 if self._active_epoch is None else self._active_epoch
        try:
            if validate_only:
                self.log.check_kraft_version(epoch, version)
            elif version > self.log.kraft_version:
                self._timeline.append(self.log.raise_kraft_version(epoch, version))
        except VersionChangeRefused as refusal:
            raise refused_for_all(str(refusal), refusal.error) from refusal
        except NotLeader as refusal:
            raise ControllerError(ErrorCode.NOT_CONTROLLER) from refusal

    # Topics

    def delete_topics(
        self, topic_ids: Sequence[bytes], quota: MutationQuota
    ) -> Pending[dict[bytes, ErrorCode]]:
        """Deletes topics. Returns the outcome by topic id."""

        def decide(image: ClusterImage) -> Decision[dict[bytes, ErrorCode]]:
            quota.begin(self._clock.monotonic_ms())
            return delete_topics(image, topic_ids, quota)

        return self.decide(decide, lambda code: dict.fromkeys(topic_ids, code))

    def topic_ids(self, names: Sequence[str]) -> dict[str, bytes]:
        """The ids of those topics that exist in the newest image, for a decision that follows at once."""
        by_name = self._timeline.newest.topics.by_name
        return {name: by_name[name].id for name in names if name in by_name}

    def topic_names(self, topic_ids: Sequence[bytes]) -> dict[bytes, str]:
        """The names of those topics that exist in the newest image."""
        by_id = self._timeline.newest.topics.by_id
        return {topic_id: by_id[topic_id].name for topic_id in topic_ids if topic_id in by_id}

    @property
    def deletes_topics(self) -> bool:
        return self._config.flag("delete.topic.enable")

    # Producer ids and controllers

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> Pending[AllocateProducerIdsResponse]:
        return self.decide(
            lambda image: allocate_producer_ids(image, request),
            lambda code: AllocateProducerIdsResponse(error_code=code),
        )

    def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> Pending[ControllerRegistrationResponse]:
        return self.decide(
            lambda image: register_controller(image, request),
            lambda code: ControllerRegistrationResponse(error_code=code, error_message=code.message),
        )

    # Brokers

    def unregister_broker(self, request: UnregisterBrokerRequest) -> Pending[UnregisterBrokerResponse]:
        def decide(image: ClusterImage) -> Decision[UnregisterBrokerResponse]:
            self._liveness.forget(request.broker_id)
            return broker_subject.unregister_broker(image, request, self.rules.leadership(image))

        return self.decide(
            decide, lambda code: UnregisterBrokerResponse(error_code=code, error_message=code.message)
        )

    def register_broker(
        self, request: BrokerRegistrationRequest, version: int
    ) -> Pending[BrokerRegistrationResponse]:
        """version: that of the request."""
        now_ms = self._clock.monotonic_ms()

        def decide(image: ClusterImage) -> Decision[BrokerRegistrationResponse]:
            existing = image.brokers.get(request.broker_id)
            has_session = existing is not None and self._liveness.has_session(
                existing.id, existing.epoch, now_ms
            )
            try:
                decision = broker_subject.register_broker(
                    image,
                    request,
                    cluster_id=self.cluster_id,
                    kraft_version=self.log.kraft_version,
                    has_session=has_session,
                    next_offset=self.log.end_offset,
                    tells_clean_shutdown=version >= CLEAN_SHUTDOWN_SINCE,
                    rules=self.rules.leadership(image),
                )
            except ControllerError as fault:  # the answer has no room for a sentence
                _log.warning("Broker %d is not registered: %s", request.broker_id, fault.message)
                raise
            if not decision.is_part:
                self._liveness.heard(request.broker_id, decision.response.broker_epoch, now_ms)
                self._arm_session_timer()
            return decision

        return self.decide(decide, lambda code: BrokerRegistrationResponse(error_code=code))

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Pending[BrokerHeartbeatResponse]:
        now_ms = self._clock.monotonic_ms()

        def decide(image: ClusterImage) -> Decision[BrokerHeartbeatResponse]:
            decision = broker_subject.heartbeat(
                image,
                request,
                handed_over=self._handed_over(image, request.broker_id),
                rules=self.rules.leadership(image),
            )
            self._liveness.heard(
                request.broker_id, request.broker_epoch, now_ms, request.current_metadata_offset
            )
            broker = image.brokers.get(request.broker_id)
            if broker is not None and broker.fenced and not decision.response.is_fenced:
                self._leader_tasks.broker_returned(image, broker.id)
            if decision.response.should_shut_down and not decision.is_part:
                self._liveness.forget(request.broker_id)
            elif request.want_shut_down and decision.records:
                last_move = self.log.end_offset + len(decision.records) - 1
                self._liveness.shuts_down(request.broker_id, last_move)
            self._arm_session_timer()
            return decision

        return self.decide(decide, lambda code: BrokerHeartbeatResponse(error_code=code))

    def _handed_over(self, image: ClusterImage, broker_id: int) -> bool:
        """Whether all active brokers have replayed the records that have moved the leaderships of a broker
        that shuts down."""
        offset = self._liveness.shutdown_offset(broker_id)
        active = [i for i in sorted(image.brokers.by_id) if image.brokers.is_active(i) and i != broker_id]
        return self._liveness.lowest_metadata_offset(active, otherwise=offset) >= offset

    def _arm_session_timer(self) -> None:
        deadline_ms = self._liveness.next_deadline_ms()
        if self._session_timer is None and deadline_ms is not None:
            self._session_timer = self._timers.call_at(deadline_ms, self._check_sessions)

    def _check_sessions(self) -> None:
        """Fences brokers whose sessions have expired. Heartbeats do not move the timer: when it rings, it
        looks at all sessions."""
        self._session_timer = None
        if self._active_epoch is None:
            return
        for broker_id in self._liveness.overdue(self._clock.monotonic_ms()):
            self._liveness.forget(broker_id)
            broker = self._timeline.newest.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                self.timed_out_heartbeats += 1
                _log.info(
                    "Fencing broker %d at epoch %d because its session has timed out.",
                    broker_id,
                    broker.epoch,
                )
                self._fence(broker)
        self._arm_session_timer()

    def _fence(self, broker: BrokerRegistration) -> None:
        """Fences a broker in its present registration, in as many turns of the loop as its partitions
        need."""

        def decide(image: ClusterImage) -> Decision[None]:
            current = image.brokers.get(broker.id)
            if current is None or current.fenced or current.epoch != broker.epoch:
                return Decision((), None)
            return broker_subject.fence_broker(image, current, self.rules.leadership(image))

        self._unasked(decide)


def _bootstrap_option(config: BrokerConfig) -> str:
    """The option with which Kafka's tools reach this node if another release serves on its listeners."""
    if config.is_broker:
        option, endpoints = "--bootstrap-server", config.advertised_listeners
    else:
        option, endpoints = "--bootstrap-controller", config.advertised_controller_listeners
    return f"{option} {endpoints[0].host or 'localhost'}:{endpoints[0].port}"
