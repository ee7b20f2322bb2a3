"""What the handlers of the controller listener are given."""

from __future__ import annotations

import msgspec

from config.broker_config import BrokerConfig
from config.log_levels import Loggers
from config.ports import Clock, Timers
from controller.metadata.log import MetadataLog
from controller.metadata.policies import Policies
from controller.quorum_controller import QuorumController
from protocol.serving.handler_table import HandlerTable

__all__ = ["ControllerServices"]


class ControllerServices(msgspec.Struct, gc=True):
    """The controller role of one node. Controller and broker share no object, in one process neither."""

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
    """The operator's own rules; None without any."""
