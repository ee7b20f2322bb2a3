"""The APIs of the controller listener: the one list of its handlers."""

from __future__ import annotations

from controller.handlers import (
    allocate_producer_ids,
    api_versions,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    envelope,
    fetch,
    fetch_snapshot,
)
from protocol.serving import LISTENER_CONTROLLER, HandlerTable

__all__ = ["controller_handlers"]


def controller_handlers() -> HandlerTable:
    """The APIs of the controller listener."""
    return HandlerTable(
        (
            allocate_producer_ids,
            api_versions,
            broker_heartbeat,
            broker_registration,
            controller_registration,
            create_topics,
            delete_topics,
            describe_cluster,
            describe_configs,
            describe_quorum,
            envelope,
            fetch,
            fetch_snapshot,
        ),
        LISTENER_CONTROLLER,
    )
