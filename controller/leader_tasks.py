"""Elections that the active controller begins by itself.

* every `unclean.leader.election.interval.ms`: partitions without a leader, where their topic allows an
  unclean election;
* every `leader.imbalance.check.interval.seconds`, if `auto.leader.rebalance.enable`: partitions that another
  than their preferred leader leads. As in Kafka without ZooKeeper, nobody looks at
  `leader.imbalance.per.broker.percentage`: every such partition is given back that can be;
* when a broker is unfenced, and more partitions wait for a leader than one turn of the loop handles.

The partitions are listed at the beginning, and handled in as many turns of the loop as they need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from config.broker_config import BrokerConfig
from config.ports import Clock, Timer, Timers
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.partition_index import Group, PartitionKey
from controller.subjects.leadership import LeadershipRules
from controller.subjects.partition_change import Election
from controller.subjects.partitions import MOVES_PER_TURN, elect, waiting_for
from controller.subjects.result import Decision

__all__ = ["LeaderTasks"]


class LeaderTasks:
    """Runs between `start` and `stop`. newest: the image by which decisions are made. decide: makes a
    decision, if this controller is still active."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        *,
        newest: Callable[[], ClusterImage],
        rules: Callable[[ClusterImage], LeadershipRules],
        decide: Callable[[Callable[[ClusterImage], Decision[None]]], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._newest = newest
        self._rules = rules
        self._decide = decide
        self._unclean_interval_ms = config.integer("unclean.leader.election.interval.ms")
        self._rebalances = config.flag("auto.leader.rebalance.enable")
        self._balance_interval_ms = 1000 * config.integer("leader.imbalance.check.interval.seconds")
        self._starts = 0
        """Counts each start and stop, so that turns of the loop from before them do nothing."""
        self._waiting: list[Timer] = []

    def start(self) -> None:
        self.stop()
        self._repeat(self._unclean_interval_ms, self.look_for_leaders)
        if self._rebalances:
            self._repeat(self._balance_interval_ms, self._balance)

    def stop(self) -> None:
        self._starts += 1
        for timer in self._waiting:
            timer.cancel()
        self._waiting.clear()

    def _repeat(self, interval_ms: int, look: Callable[[], None]) -> None:
        def ring() -> None:
            self._waiting.remove(timer)
            look()
            self._repeat(interval_ms, look)

        timer = self._timers.call_at(self._clock.monotonic_ms() + interval_ms, ring)
        self._waiting.append(timer)

    def broker_returned(self, image: ClusterImage, broker_id: int) -> None:
        """Called when a broker is being unfenced. Leaders are elected at once for the first partitions that
        wait for it, and for the others from the next turn of the loop on. image: the image before that."""
        later = tuple(islice(waiting_for(image, broker_id), MOVES_PER_TURN, None))
        starts = self._starts
        self._timers.call_soon(lambda: self._go_on(later, None, starts))

    def look_for_leaders(self) -> None:
        """Elects leaders for the partitions that have none, as the configs of their topics allow it."""
        self._go_on(tuple(self._newest().topics.index.partitions(Group.LED_BY)), None, self._starts)

    def _balance(self) -> None:
        partitions = self._newest().topics.index.partitions(Group.NOT_LED_BY_PREFERRED)
        self._go_on(tuple(partitions), Election.PREFERRED, self._starts)

    def _go_on(self, keys: Sequence[PartitionKey], election: Election | None, starts: int) -> None:
        """Elects leaders for the first of these partitions. The others are handled in the next turns of the
        loop."""
        if not keys or starts != self._starts:
            return
        now, later = keys[:MOVES_PER_TURN], keys[MOVES_PER_TURN:]
        self._decide(lambda image: Decision(elect(image, now, self._rules(image), election=election), None))
        if later:
            self._timers.call_soon(lambda: self._go_on(later, election, starts))
