"""A controller on files in memory, whose clock and helper threads a test moves by hand."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Final, TypeVar

from config.broker_config import BrokerConfig
from config.loading import default_settings, layered, load, one_node_defaults
from controller.format import Formatter, read_bootstrap_records
from controller.handler_table import controller_handlers
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.image.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    TRANSACTION_VERSION,
)
from controller.metadata.log_opening import open_replica, raft_config
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.quorum_controller import QuorumController
from controller.raft.peers import ClosablePeerChannel
from controller.services import ControllerServices
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import Authorizer, Operation, ResourceType
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Session
from storage.memory_files import MemoryFiles
from storage.meta_properties import read_meta_properties
from tests.support.rigs.authorizers import HandmadeAuthorizer
from tests.support.rigs.hand_clock import HandClock, HandTimers

T = TypeVar("T")

CLUSTER_ID = "uitV0ZJKSwi6ZntyNnO-kQ"
DATA = "/data"
METADATA_LOG = f"{DATA}/__cluster_metadata-0"


class SeededRandomSource:
    """`config.ports.RandomSource` out of a seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def fraction(self) -> float:
        return self._random.random()


class HandOffload:
    """`config.ports.Offload`: nothing runs until the test says so."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def submit(self, call: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self._calls.append((call, done))

    def run(self) -> int:
        """Runs what is waiting, and what that brings; how many calls."""
        count = 0
        while self._calls:
            call, done = self._calls.pop(0)
            try:
                result = call()
            except OSError as error:
                done(error)
            else:
                done(result)
            count += 1
        return count

    def fail(self, error: OSError) -> None:
        """The first waiting call fails instead of running."""
        _, done = self._calls.pop(0)
        done(error)


class HandLoggers:
    """`config.log_levels.Loggers`: two loggers below root, whose levels nobody feels."""

    def __init__(self) -> None:
        self.own: dict[str, str | None] = {"root": "INFO", "barnabas": None, "barnabas.storage": None}

    def levels(self) -> dict[str, str]:
        above = self.own["root"] or "INFO"
        return {name: level or above for name, level in self.own.items()}

    def set_level(self, name: str, level: str) -> None:
        self.own[name] = level

    def inherit_level(self, name: str) -> None:
        self.own[name] = None


class Permissive(HandmadeAuthorizer):
    """Allows everything but what a test forbids."""

    def __init__(self) -> None:
        self.forbidden: set[tuple[Operation, ResourceType, str]] = set()

    def permits(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        return (operation, resource, name) not in self.forbidden


QUIET: Final = MappingProxyType({"metadata.max.idle.interval.ms": "0"})
"""Nothing is written that the test did not cause."""


def one_node_config(**settings: str) -> BrokerConfig:
    """The config of a start without a file, with some settings of the test (dots as double underscores)."""
    named = {name.replace("__", "."): text for name, text in settings.items()}
    return load(layered(default_settings(one_node_defaults(DATA) | QUIET | named))).config


def no_channel(host: str, port: int) -> ClosablePeerChannel:
    """An only voter has nobody to talk to."""
    raise AssertionError(f"a request to {host}:{port}")


class ControllerFixture:
    """One life of a controller. `restart` begins the next one on the same files."""

    def __init__(
        self,
        files: MemoryFiles | None = None,
        *,
        config: BrokerConfig | None = None,
        seed: int = 1,
        clock: HandClock | None = None,
        timers: HandTimers | None = None,
        elr: bool = False,
    ) -> None:
        """timers: of the same clock, where somebody else lives by them too. elr: the new cluster has eligible
        leader replicas. No other feature is on in it."""
        self.clock = clock or HandClock()
        self.timers = timers or HandTimers(self.clock)
        self.offload = HandOffload()
        self.random_source = SeededRandomSource(seed)
        self.files = files or MemoryFiles(self.clock.wall_ms)
        self.config = config or one_node_config()
        self.authorizer = Permissive()
        if files is None:
            self.format(features={ELIGIBLE_LEADER_REPLICAS: int(elr)})
        self.log = self.open_log()
        self.controller = QuorumController(
            node_id=1,
            cluster_id=CLUSTER_ID,
            log=self.log,
            config=self.config,
            clock=self.clock,
            timers=self.timers,
            random_source=self.random_source,
            bootstrap_records=read_bootstrap_records(self.config, self.files),
            endpoints=self.endpoints,
        )
        self.controller.start()
        self.services = ControllerServices(
            node_id=1,
            cluster_id=CLUSTER_ID,
            config=self.config,
            clock=self.clock,
            timers=self.timers,
            controller=self.controller,
            log=self.log,
            handlers=controller_handlers(),
            loggers=HandLoggers(),
        )

    @property
    def endpoints(self) -> Mapping[str, BrokerEndpoint]:
        return {"CONTROLLER": BrokerEndpoint("127.0.0.1", 9093, 0)}

    def format(self, **options: Any) -> str:
        output = io.StringIO()
        Formatter(
            cluster_id=CLUSTER_ID,
            config=self.config,
            files=self.files,
            clock=self.clock,
            random_source=self.random_source,
            **options,
        ).run(output)
        return output.getvalue()

    def open_log(self) -> ReplicatedMetadataLog:
        properties = read_meta_properties(self.files, f"{DATA}/meta.properties")
        if properties is None or properties.directory_id is None:
            raise AssertionError("the directory is formatted")
        quorum = raft_config(
            self.config,
            cluster_id=CLUSTER_ID,
            directory_id=properties.directory_id,
            endpoints=self.endpoints,
        )
        log = open_replica(
            self.config,
            quorum,
            files=self.files,
            clock=self.clock,
            timers=self.timers,
            offload=self.offload,
            random_source=self.random_source,
            make_channel=no_channel,
        )
        log.start()
        return log

    def restart(self, seed: int = 2, timers: HandTimers | None = None) -> ControllerFixture:
        """The next life; the one before must have been ended or killed."""
        return ControllerFixture(self.files, config=self.config, seed=seed, clock=self.clock, timers=timers)

    def call(self, api_key: ApiKey, request: Any, version: int | None = None) -> Any:
        """What the API answers, once everything written is synced. A Pending that still waits comes back."""
        registration = self.services.handlers.get(api_key)
        if registration is None:
            raise AssertionError(f"{api_key.name} is served")
        context = self.context(api_key, registration.max_version if version is None else version)
        answer = registration.handler(self.services, context, request)
        self.settle()
        if isinstance(answer, Pending) and answer.response is not None:
            return answer.response
        return answer

    def settle(self) -> None:
        """What was appended is written and synced; what takes many turns, as a snapshot, goes on later."""
        quiet_turns = 0
        while quiet_turns < 2:
            self.timers.run_once()
            quiet_turns = 0 if self.offload.run() else quiet_turns + 1

    def context(self, api_key: ApiKey, version: int) -> RequestContext:
        authorizer: Authorizer = self.authorizer
        session = Session(connection_id="1", listener="CONTROLLER", host="127.0.0.1", is_in_process=True)
        return RequestContext(api_key, version, 7, "test", session, self.clock.wall_ms(), authorizer)

    # Brokers

    def register(
        self, broker_id: int, *, incarnation: bytes | None = None, **changes: Any
    ) -> BrokerRegistrationResponse:
        """Registers a broker; its directory id consists of its id."""
        request = registration(broker_id, incarnation=incarnation, **changes)
        response: BrokerRegistrationResponse = self.call(ApiKey.BROKER_REGISTRATION, request)
        return response

    def heartbeat(self, broker_id: int, epoch: int, **changes: Any) -> BrokerHeartbeatResponse:
        """A heartbeat of a broker that has caught up, unless the test says otherwise."""
        fields = {"current_metadata_offset": self.log.high_watermark, **changes}
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, **fields)
        response: BrokerHeartbeatResponse = self.call(ApiKey.BROKER_HEARTBEAT, request)
        return response

    def bring_up(self, *broker_ids: int, **changes: Any) -> dict[int, int]:
        """Registers and unfences brokers; their epochs."""
        epochs = {}
        for broker_id in broker_ids:
            epochs[broker_id] = self.register(broker_id, **changes).broker_epoch
            self.heartbeat(broker_id, epochs[broker_id])
        return epochs


def registration(
    broker_id: int, *, incarnation: bytes | None = None, **changes: Any
) -> BrokerRegistrationRequest:
    feature = BrokerRegistrationRequest.Feature
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": incarnation or bytes([broker_id]) * 16,
        "listeners": [BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="h", port=9000 + broker_id)],
        "features": [
            feature("metadata.version", 30, 30),
            feature(KRAFT_VERSION, 0, 1),
            feature(ELIGIBLE_LEADER_REPLICAS, 0, 1),
            feature(GROUP_VERSION, 0, 1),
            feature(TRANSACTION_VERSION, 0, 2),
        ],
        "rack": None,
        "log_dirs": [bytes([(broker_id + 100) % 256]) * 16],
        **changes,
    }
    return BrokerRegistrationRequest(**fields)
