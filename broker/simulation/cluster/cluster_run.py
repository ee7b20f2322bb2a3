"""One run of a cluster: it starts, is in trouble for a while, calms down, and must then be well again.

    plan, steps ──▶ nodes start, topics are made, clients begin
                    trouble: each step at its time
                    calm: whatever was broken is mended, whoever is down is started
                    the end: clients finish what they do, and all that was told to them is judged

What verbs need to befall the cluster is here: the world, the plan, the administrator that asks the cluster
for changes. Whatever a rule or a node raises goes through to whoever runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from broker.simulation.clients.admin_client import AdminClient
from broker.simulation.clients.client_kinds import last_readers, make_client
from broker.simulation.clients.cluster_client import ClusterClient
from broker.simulation.clients.group_consumer import GroupConsumer
from broker.simulation.clients.producers import WritingClient
from broker.simulation.clients.readers import Reader
from broker.simulation.cluster.address_changes import ADDRESS_VERBS
from broker.simulation.cluster.client_faults import CLIENT_VERBS
from broker.simulation.cluster.cluster_changes import CHANGE_VERBS, EXTRA_PREFIX
from broker.simulation.cluster.cluster_plan import ClientPlan, ClusterPlan
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.cluster_world import ClusterWorld
from broker.simulation.cluster.correlated_failures import CORRELATED_VERBS
from broker.simulation.cluster.directory_moves import DIRECTORY_MOVE_VERBS
from broker.simulation.cluster.disk_faults import CLOCK_VERBS, DISK_VERBS
from broker.simulation.cluster.disk_losses import DISK_LOSS_VERBS
from broker.simulation.cluster.feature_changes import FEATURE_VERBS
from broker.simulation.cluster.file_damage import DAMAGE_VERBS
from broker.simulation.cluster.loss_budget import LossBudget
from broker.simulation.cluster.machine_faults import MACHINE_VERBS
from broker.simulation.cluster.membership_changes import MEMBERSHIP_VERBS, moves_from_former_nodes
from broker.simulation.cluster.network_faults import NETWORK_VERBS
from broker.simulation.cluster.older_levels import UPGRADE_VERBS
from broker.simulation.cluster.operator_looks import OPERATOR_VERBS
from broker.simulation.cluster.partition_changes import PARTITION_VERBS
from broker.simulation.cluster.record_deletions import RECORD_DELETION_VERBS
from broker.simulation.histories.checker import check
from broker.simulation.histories.history import History, deleted_below
from broker.simulation.rules.group_rules import GROUPS_SETTLE, GroupRules
from broker.simulation.rules.rule_table import all_rules
from broker.simulation.rules.wellness import (
    BECOMES_WELL,
    CLIENTS_FINISH,
    PROMISES,
    reason_not_steady,
    reason_not_well,
)
from broker.simulation.verdict import Violation, ways_in

__all__ = ["BECOMES_WELL", "CLIENTS_FINISH", "PROMISES", "VERBS", "ClusterRun"]

VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        **NETWORK_VERBS,
        **DISK_VERBS,
        **CLOCK_VERBS,
        **MACHINE_VERBS,
        **CLIENT_VERBS,
        **CHANGE_VERBS,
        **PARTITION_VERBS,
        **MEMBERSHIP_VERBS,
        **FEATURE_VERBS,
        **DISK_LOSS_VERBS,
        **OPERATOR_VERBS,
        **ADDRESS_VERBS,
        **DIRECTORY_MOVE_VERBS,
        **CORRELATED_VERBS,
        **DAMAGE_VERBS,
        **UPGRADE_VERBS,
        **RECORD_DELETION_VERBS,
    }
)
"""All that can befall a cluster, by name, in the order in which it heals: what was broken below comes before
what stands upon it."""

START_LIMIT_MS: Final = 60_000
QUIET_MS: Final = 10_000
"""How long clients go on after the trouble is over."""
FINISH_LIMIT_MS: Final = 180_000
"""So long at most may each of these take, one after the other: that those who write come to their end, those
who read, the last readers, and the administrator. A transaction may have to run out of its time first."""
WELL_LIMIT_MS: Final = 60_000
"""Within so long after the trouble all nodes are up and in sync, though clients are at work. And within so
long the cluster is well when nobody writes any more, and then all groups have settled."""
WRITE_LIMIT_MS: Final = 30_000
"""Within so long a client that writes has written something where all is well."""
AGAIN_MS: Final = 500
"""So long it waits before it tries again."""
LOOK_EVERY_MS: Final = 250
ELECT_EVERY_MS: Final = 10_000
"""How often the operator looks again at what is left to do when the trouble is over."""

WRITING: Final = frozenset({"producer", "transactional", "transformer"})


class ClusterRun:
    """is_calm: whether the trouble is over. deletes_records: an operator has had records of clients
    deleted, or has let them expire."""

    def __init__(self, seed: int, plan: ClusterPlan, steps: Sequence[ClusterStep]) -> None:
        self.seed = seed
        self.plan = plan
        self.steps = steps
        self.world = ClusterWorld(
            seed,
            plan.places,
            is_dynamic=plan.is_dynamic,
            has_other_ports=plan.has_other_ports,
            features=plan.features,
            may_lose_records=plan.allows_unclean,
        )
        self.world.rules += all_rules(self.world, plan)
        self.budget = LossBudget(self.world, plan)
        self.bootstrap = [each.host for each in plan.places if each.is_broker]
        self.admin = AdminClient(self.world, ClientPlan("admin", "admin", ()), self.bootstrap)
        self.world.add_client(self.admin)
        self.clients = [make_client(self.world, client, self.bootstrap) for client in plan.clients]
        self.is_calm = self.deletes_records = False
        self._calm_ms = 0.0
        """When the trouble was over."""

    def run(self) -> None:
        """From the start to the verdict."""
        self.start()
        self.make_trouble()
        self.calm()
        self.finish()
        self.judge()

    def start(self) -> None:
        """All nodes, until they are ready and have the plan's topics; then the clients."""
        self.world.start_all(limit_ms=START_LIMIT_MS)
        self.admin.start()
        for topic in self.plan.topics:
            self.admin.carry_out(
                self.admin.create_topic(topic.name, topic.partitions, topic.replication_factor, topic.configs)
            )
        self.world.loop.run_until(self._knows_topics, limit_ms=START_LIMIT_MS)
        for client in self.clients:
            client.start()

    def _knows_topics(self) -> bool:
        images = [node.image for node in self.world.brokers]
        names = {topic.name for topic in self.plan.topics}
        return all(image is not None and names <= image.topics.by_name.keys() for image in images)

    def make_trouble(self) -> None:
        """Every step at its time, and what the cluster makes of it."""
        loop = self.world.loop
        for step in self.steps:
            loop.call_later(step.at_ms * 1_000_000, partial(self._play, step))
        loop.run_for(self.plan.duration_ms)

    def _play(self, step: ClusterStep) -> None:
        told = VERBS[step.verb].play(self, step)
        if told is None:
            self.world.coverage.count(f"nothing to do: {step.verb}")
            return
        self.world.coverage.count(f"step: {step.verb}")
        self.world.tell(told)

    def calm(self) -> None:
        """Ends all trouble at once."""
        self.is_calm, self._calm_ms = True, self.world.now_ms
        self.world.tell("the trouble is over")
        for verb in VERBS.values():
            if verb.heal is not None:
                verb.heal(self)
        for client in self.clients:
            if isinstance(client, GroupConsumer):
                client.is_steady = True
        if self.plan.allows_unclean:
            self._elect_unclean()
        self._move_from_former_nodes()

    def _elect_unclean(self) -> None:
        """What an operator does who has lost every replica that held all: any replica shall lead."""
        self.admin.carry_out(self.admin.elect(None, is_unclean=True))
        self.world.loop.call_later(ELECT_EVERY_MS * 1_000_000, self._elect_unclean)

    def _move_from_former_nodes(self) -> None:
        """What an operator does who finds replicas on brokers that have left: a reassignment that had waited
        for the controllers was carried out after the broker had been found empty."""
        for command in moves_from_former_nodes(self):
            self.admin.carry_out(command)
        self.world.loop.call_later(ELECT_EVERY_MS * 1_000_000, self._move_from_former_nodes)

    def finish(self) -> None:
        """Clients go on for a while, and end: those who write, then those who read what was written."""
        self.world.loop.run_for(QUIET_MS)
        self._until(
            partial(reason_not_steady, self.world), BECOMES_WELL, WELL_LIMIT_MS, since_ms=self._calm_ms
        )
        self._finish([each for each in self.clients if each.plan.kind in WRITING])
        self._become_well()
        self._write_once_more()
        self._settle_groups()
        self._finish([each for each in self.clients if each.plan.kind not in WRITING])
        self._read_all()
        self._finish([self.admin])

    def _become_well(self) -> None:
        self._until(partial(reason_not_well, self.world), BECOMES_WELL, WELL_LIMIT_MS)

    def _write_once_more(self) -> None:
        """Whoever was refused for ever has come to its end as well as whoever succeeded. So each of those who
        write does so once more, one after the other, as some share a transactional id. Where committed
        records may be lost, partitions may have no leader and coordinators may have forgotten epochs."""
        if self.plan.allows_unclean:
            return

        async def write(client: WritingClient) -> None:
            while not await client.write_once_more():
                await client.sleep_ms(AGAIN_MS)

        for client in self.clients:
            if isinstance(client, WritingClient):
                client.begin(write(client))
                self._until(partial(_why_not_over, client), CLIENTS_FINISH, WRITE_LIMIT_MS)
                self.world.coverage.count("clients that wrote when all was well")
        self._become_well()

    def _settle_groups(self) -> None:
        """Nobody writes any more, and every group reads and commits what is there."""
        topics: dict[str, dict[str, None]] = {}
        for client in self.clients:
            if isinstance(client, GroupConsumer):
                topics.setdefault(client.group, {}).update(dict.fromkeys(client.plan.topics))
        for rules in self.world.rules:
            if isinstance(rules, GroupRules):
                self._until(partial(rules.reason_unsettled, topics), GROUPS_SETTLE, WELL_LIMIT_MS)

    def _read_all(self) -> None:
        """Without this nobody knows what became of the last records. Where committed records were lost, a
        marker may have been, too, and then a transaction stays open for ever."""
        readers = last_readers(self.world, [topic.name for topic in self.plan.topics], self.bootstrap)
        read: list[bool] = []

        async def read_all(reader: Reader) -> None:
            read.append(await reader.read_to_end())

        for reader in readers:
            reader.begin(read_all(reader))
        self._finish(readers)
        if not all(read) and not self.world.losses:
            reason = "a partition could not be read to its end"
            raise Violation(CLIENTS_FINISH, reason, ways_in(reason))
        self._have_begun_with_the_first(readers)

    def _have_begun_with_the_first(self, readers: Iterable[Reader]) -> None:
        """Of what must be there. The checker takes a reading that begins later for none of all that there is,
        and so it would miss nothing."""
        deleted = deleted_below(self.world.history)
        late = [
            f"{reader.name} begins {partition} at {offset}"
            for reader in readers
            for partition, offset in reader.beginnings
            if offset > deleted.get(partition, 0)
        ]
        if late and not self._excuse():
            raise Violation(PROMISES, ", ".join(late), ways_in("a reading begins late"))

    def _finish(self, clients: Iterable[ClusterClient]) -> None:
        for client in clients:
            client.finish()
        self._until(lambda: _unfinished(clients), CLIENTS_FINISH, FINISH_LIMIT_MS)

    def _until(
        self,
        reason_against: Callable[[], str | None],
        rule: str,
        within_ms: int,
        *,
        since_ms: float | None = None,
    ) -> None:
        """Until there is no reason against it, or else it is a violation of the rule. since_ms: from when on
        the time counts; None for now."""
        loop, began_ms = self.world.loop, self.world.now_ms
        limit_ms = within_ms + (began_ms if since_ms is None else since_ms)
        while (reason := reason_against()) is not None:
            if self.world.now_ms > limit_ms:
                told = f"not so after {within_ms // 1_000} s: {reason}"
                raise Violation(rule, told, ways_in(reason))
            loop.run_for(LOOK_EVERY_MS)
        self.world.coverage.longest(f"longest ms until {rule}", int(self.world.now_ms - began_ms))

    def judge(self) -> None:
        """What clients were told, before the checker of histories, to whom nothing may be missing."""
        excuse = self._excuse()
        if excuse:
            self.world.coverage.count(f"histories that are not judged: {excuse}")
            return
        if self.plan.allows_unclean:
            self.world.coverage.count("histories that are judged, though records could have been lost")
        verdict = check(History(self.world.history))
        for name, count in verdict.counts.items():
            self.world.coverage.add({f"history: {name}": count})
        if not verdict.is_clean:
            kinds = sorted(verdict.kinds)
            raise Violation(PROMISES, f"{', '.join(kinds)}\n{verdict.stories}", kinds)

    def _excuse(self) -> str:
        """Why records may be missing that clients have written; nothing if none may be."""
        if any(not topic.startswith(EXTRA_PREFIX) for topic, _ in self.world.losses):
            return "committed records were lost"
        return "records were deleted" if self.deletes_records else ""


def _why_not_over(client: ClusterClient) -> str | None:
    return None if client.is_over else f"{client.name} has written nothing, though all is well"


def _unfinished(clients: Iterable[ClusterClient]) -> str | None:
    names = [client.name for client in clients if not client.is_over]
    return f"{', '.join(names)} at work" if names else None
