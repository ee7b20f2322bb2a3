"""What the handlers of the controller listener are given, and the handlers of a broker that only has a
replica of the metadata log."""

from __future__ import annotations

from typing import Protocol

import msgspec

from config.broker_config import BrokerConfig
from config.log_levels import Loggers
from config.ports import Clock, Timers
from controller.metadata.log import MetadataLog
from controller.metadata.policies import Policies
from controller.quorum_controller import QuorumController
from controller.subjects.mutation_quota import MutationQuota, MutationQuotas
from protocol.serving.handler_table import HandlerTable
from protocol.serving.request_context import RequestContext

__all__ = ["ControllerServices", "LogServices", "ObserverServices"]


class LogServices(Protocol):
    """What a handler needs to read the metadata log."""

    @property
    def node_id(self) -> int: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def log(self) -> MetadataLog: ...


class ObserverServices(msgspec.Struct, gc=True):
    """The replica of the metadata log on a node that is no controller. Only the node's own broker reads
    it."""

    node_id: int
    cluster_id: str
    clock: Clock
    timers: Timers
    log: MetadataLog


class ControllerServices(msgspec.Struct, gc=True):
    """The parts of the controller of one node. Controller and broker share no object, even if they run in one
    process."""

    node_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    timers: Timers
    controller: QuorumController
    log: MetadataLog
    handlers: HandlerTable
    loggers: Loggers
    mutations: MutationQuotas = msgspec.field(default_factory=MutationQuotas)
    """How many partitions clients may have created and deleted."""
    policies: Policies | None = None
    """The operator's own policies. None if there are none."""

    def __post_init__(self) -> None:
        windows = self.config.integer("controller.quota.window.num")
        self.mutations.seconds = windows * self.config.integer("controller.quota.window.size.seconds")

    def mutation_quota(self, context: RequestContext, strict_since: int) -> MutationQuota:
        """What the client of a request may have created and deleted. strict_since: the version of its API
        from which on it is refused what is beyond that."""
        user, now_ms = context.session.principal.name, self.clock.monotonic_ms()
        is_strict = context.version >= strict_since
        quotas = self.controller.image.quotas
        return self.mutations.of(quotas, user, context.client_id, now_ms, strict=is_strict)
