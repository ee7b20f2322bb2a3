"""What befalls clients' machines: consumers of groups die and come back, and clients stand still.

A consumer that dies does not leave its group: its place is held until its session ends. One that stands still
for longer than its session believes that it has its place, while others have been given its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.clients.group_consumer import GroupConsumer
from broker.simulation.cluster.active_faults import healing
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import drawn_duration_ms

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["CLIENT_VERBS"]

LONGEST_MS: Final = 20_000
_MS: Final = 1_000_000


def _kill_consumer(run: ClusterRun, step: ClusterStep) -> str | None:
    consumers = [each for each in run.clients if isinstance(each, GroupConsumer) and not each.is_over]
    if not consumers or run.is_calm:
        return None
    consumer = consumers[step.whom % len(consumers)]
    down_ms = drawn_duration_ms(step.random(), most_ms=LONGEST_MS)
    consumer.kill()
    run.world.faults.begin("kill a consumer", down_ms, consumer.come_back)
    return f"{consumer.name} is killed, and starts again after {down_ms} ms"


def _pause_client(run: ClusterRun, step: ClusterStep) -> str | None:
    clients = [each for each in run.clients if not each.is_over and not each.machine.is_still]
    if not clients:
        return None
    client = clients[step.whom % len(clients)]
    duration_ms = drawn_duration_ms(step.random(), most_ms=LONGEST_MS)
    client.machine.stand_still(duration_ms * _MS)
    run.world.faults.begin("pause a client", duration_ms, client.machine.go_on)
    return f"{client.name} stands still for {duration_ms} ms"


CLIENT_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "kill a consumer": Verb(_kill_consumer, 4, healing("kill a consumer")),
        "pause a client": Verb(_pause_client, 4, healing("pause a client")),
    }
)
