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
from protocol.serving.handler_table import HandlerTable

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
    policies: Policies | None = None
    """The operator's own policies. None if there are none."""
