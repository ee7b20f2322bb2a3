"""What tools do to a cluster: replicas placed, leaders elected, partitions moved under a throttle, a broker
gone.

The cases tell one story. Topic `placed` has its replicas everywhere, `pair` on two brokers each, `heavy` is
too large to be copied while its move is throttled, `lonely` lies on the broker that stops, `strict` has too
few in sync then, and `risky` is moving away from there, so that only an unclean election helps.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import Producer

from tests.side_by_side.cases import Case, java, step, tool
from tests.side_by_side.cluster_side import ClusterSide
from tests.side_by_side.sides import Side
from tests.support.genuine.replica_verification import verify_replicas

TOPICS: Final = "kafka-topics"
ELECT: Final = "kafka-leader-election"
REASSIGN: Final = "kafka-reassign-partitions"
QUORUM: Final = "kafka-metadata-quorum --bootstrap-server {broker} describe"
LOG_DIRS: Final = "kafka-log-dirs --describe"
BROKERS: Final = "kafka-configs --entity-type brokers"
PAIR: Final = "kafka-configs --entity-type topics --entity-name pair"
GROW: Final = "kafka-topics --alter --topic pair"
HEAVY_RECORDS: Final = 100
PLAN: Final = '{{"version": 1, "partitions": [{}]}}'


def moves(*wanted: tuple[str, int, str]) -> str:
    """A plan: topic, partition, replicas."""
    return PLAN.format(
        ", ".join(
            f'{{"topic": "{topic}", "partition": {partition}, "replicas": [{replicas}]}}'
            for topic, partition, replicas in wanted
        )
    )


def _fill(side: Side) -> int:
    """Batches of one record each of a kilobyte, acknowledged."""
    producer = Producer({"bootstrap.servers": side.address, "acks": "all", "batch.num.messages": 1})
    for topic in ("heavy", "risky"):
        for _ in range(HEAVY_RECORDS):
            producer.produce(topic, b"x" * 1000, partition=0)
    return producer.flush(60)


def _verify_replicas(side: Side) -> list[str]:
    """The first report and the one at the end of the partition, without their times."""
    told = verify_replicas(side.address, "heavy", f"offset {HEAVY_RECORDS} among")
    return [line.partition(": ")[2] for line in (told[0], told[-1])]


def _stop_broker_3(side: Side) -> str:
    assert isinstance(side, ClusterSide)
    side.cluster.nodes[3].stop()
    return "stopped"


CREATING: Final = (
    tool("create with places", f"{TOPICS} --create --topic placed --replica-assignment 1:2:3,2:3:1,3:1:2"),
    tool("create pairs", f"{TOPICS} --create --topic pair --replica-assignment 1:2,2:3"),
    tool("create what will be heavy", f"{TOPICS} --create --topic heavy --replica-assignment 1"),
    tool("create on one broker", f"{TOPICS} --create --topic lonely --replica-assignment 3"),
    tool(
        "create a strict one",
        f"{TOPICS} --create --topic strict --replica-assignment 2:3 --config min.insync.replicas=2",
    ),
    tool("create what is at risk", f"{TOPICS} --create --topic risky --replica-assignment 3"),
    tool("one broker twice", f"{TOPICS} --create --topic bad --replica-assignment 1:1"),
    tool("unequal replicas", f"{TOPICS} --create --topic bad --replica-assignment 1:2,3"),
    tool("an unknown broker", f"{TOPICS} --create --topic bad --replica-assignment 1:9"),
    tool(
        "places and a number",
        f"{TOPICS} --create --topic bad --replica-assignment 1:2 --replication-factor 2",
    ),
    tool("too many replicas", f"{TOPICS} --create --topic bad --partitions 1 --replication-factor 4"),
    tool("describe places", f"{TOPICS} --describe --topic placed", until="Isr: 3,1,2"),
    tool("describe pairs", f"{TOPICS} --describe --topic pair", until="Isr: 2,3"),
    tool("grow with places", f"{GROW} --partitions 3 --replica-assignment 1:2,2:3,3:1"),
    tool("grow with a bad place", f"{GROW} --partitions 4 --replica-assignment 1"),
    tool("describe what has grown", f"{TOPICS} --describe --topic pair", until="Partition: 2"),
    tool("under replicated ones, none", f"{TOPICS} --describe --under-replicated-partitions"),
    tool("at min isr, those of one replica", f"{TOPICS} --describe --at-min-isr-partitions"),
    tool("under min isr, none", f"{TOPICS} --describe --under-min-isr-partitions"),
    tool("unavailable ones, none", f"{TOPICS} --describe --unavailable-partitions"),
)

LOOKING: Final = (
    tool("list endpoints", "kafka-cluster list-endpoints"),
    tool("endpoints of controllers", "kafka-cluster list-endpoints --bootstrap-controller {controller}"),
    tool("the cluster's id", "kafka-cluster cluster-id"),
    tool("quorum status", f"{QUORUM} --status"),
    tool(
        "quorum status by a controller",
        "kafka-metadata-quorum --bootstrap-controller {controller} describe --status",
    ),
    tool("quorum replication", f"{QUORUM} --replication", unordered=True),
    java("describe the cluster", "describeCluster"),
    java("replicas' log dirs", "describeReplicaLogDirs placed-0@2 placed-0@3 pair-0@3 nowhere-0@2"),
    tool("log dirs of all", f"{LOG_DIRS} --topic-list placed", unordered=True),
    tool("log dirs of two", f"{LOG_DIRS} --broker-list 2,3 --topic-list pair", unordered=True),
    tool("offsets", "kafka-get-offsets --topic placed"),
    tool(
        "delete records",
        "kafka-delete-records --offset-json-file {plan}",
        plan='{"version": 1, "partitions": [{"topic": "placed", "partition": 0, "offset": -1}]}',
    ),
)

CLEANERS: Final = "log.cleaner.threads"
RATE: Final = "leader.replication.throttled.rate"
THROTTLED: Final = "leader.replication.throttled.replicas"

CONFIGURING: Final = (
    tool("of one broker", f"{BROKERS} --entity-name 2 --alter --add-config {CLEANERS}=2"),
    tool("of all brokers", f"{BROKERS} --entity-default --alter --add-config {CLEANERS}=2"),
    tool("describe one broker", f"{BROKERS} --entity-name 2 --describe", until="=2"),
    tool("describe another", f"{BROKERS} --entity-name 3 --describe"),
    tool("describe all", f"{BROKERS} --entity-default --describe", until="=2"),
    tool("take it back", f"{BROKERS} --entity-name 2 --alter --delete-config {CLEANERS}"),
    tool("throttle a broker", f"{BROKERS} --entity-name 3 --alter --add-config {RATE}=1000000"),
    tool("throttled replicas", f"{PAIR} --alter --add-config {THROTTLED}=[0:1,1:2]"),
    tool("bad throttled replicas", f"{PAIR} --alter --add-config {THROTTLED}=some"),
    tool("describe throttled replicas", f"{PAIR} --describe", until=THROTTLED),
    tool("no throttle", f"{BROKERS} --entity-name 3 --alter --delete-config {RATE}"),
    tool("no throttled replicas", f"{PAIR} --alter --delete-config {THROTTLED}"),
)


def execute(name: str, plan: str, options: str = "") -> Case:
    return tool(name, f"{REASSIGN} --execute {options} --reassignment-json-file {{plan}}", plan=plan)


def verify(name: str, plan: str, options: str = "", *, until: str = "") -> Case:
    line = f"{REASSIGN} --verify {options} --reassignment-json-file {{plan}}"
    return tool(name, line, plan=plan, until=until)


def cancel(name: str, plan: str, options: str = "") -> Case:
    return tool(name, f"{REASSIGN} --cancel {options} --reassignment-json-file {{plan}}", plan=plan)


ELECTING: Final = (
    tool("all, none needed", f"{ELECT} --election-type preferred --all-topic-partitions"),
    execute("another preferred leader", moves(("placed", 0, "2, 3, 1"))),
    tool("it leads not yet", f"{TOPICS} --describe --topic placed", until="Replicas: 2,3,1"),
    tool("one", f"{ELECT} --election-type preferred --topic placed --partition 0"),
    tool("it leads now", f"{TOPICS} --describe --topic placed", until="Leader: 2\tReplicas: 2,3,1"),
    tool("one that leads", f"{ELECT} --election-type preferred --topic placed --partition 0"),
    tool(
        "some of a file",
        f"{ELECT} --election-type preferred --path-to-json-file {{plan}}",
        plan='{"partitions": [{"topic": "placed", "partition": 1}, {"topic": "pair", "partition": 9}]}',
    ),
    tool("uncleanly, not needed", f"{ELECT} --election-type unclean --topic placed --partition 0"),
)

HEAVY: Final = moves(("heavy", 0, "2, 3"))
RISKY: Final = moves(("risky", 0, "1"))

MOVING: Final = (
    step("fill", _fill),
    execute("move a pair", moves(("pair", 0, "3, 1"))),
    verify("it has moved", moves(("pair", 0, "3, 1")), until="is completed"),
    execute("under a throttle", HEAVY, "--throttle 10"),
    tool("which go on", f"{REASSIGN} --list", until="heavy-0"),
    java("which go on (Java)", "listPartitionReassignments"),
    verify("still going on", HEAVY, "--preserve-throttles"),
    tool("described while it goes on", f"{TOPICS} --describe --topic heavy", until="Replicas: 2,3,1"),
    tool("under replicated while it goes on", f"{TOPICS} --describe --under-replicated-partitions"),
    tool("its throttle, of the topic", "kafka-configs --entity-type topics --entity-name heavy --describe"),
    tool("its throttle, of a broker", f"{BROKERS} --entity-name 2 --describe"),
    execute("a second move beside it", moves(("pair", 1, "1, 2"))),
    execute("the second move after all", moves(("pair", 1, "1, 2")), "--additional --throttle 20"),
    verify(
        "the second move is done",
        moves(("pair", 1, "1, 2")),
        "--preserve-throttles",
        until="is completed",
    ),
    cancel("cancel", HEAVY, "--preserve-throttles"),
    cancel("cancel again", HEAVY),
    tool("it is where it was", f"{TOPICS} --describe --topic heavy", until="Replicas: 1\tIsr: 1"),
    execute("move it freely", HEAVY),
    verify(
        "it has moved freely",
        moves(("heavy", 0, "2, 3"), ("pair", 1, "1, 2")),
        until="heavy-0 is completed",
    ),
    execute("more replicas", moves(("heavy", 0, "2, 3, 1"))),
    verify("more replicas are there", moves(("heavy", 0, "2, 3, 1")), until="is completed"),
    tool("described at the end", f"{TOPICS} --describe --topic heavy", until="Replicas: 2,3,1"),
    step("replicas are verified", _verify_replicas),
    tool(
        "a plan for a broker nobody knows",
        f"{REASSIGN} --generate --broker-list 9 --topics-to-move-json-file {{topics}}",
        topics='{"version": 1, "topics": [{"topic": "pair"}]}',
    ),
    execute("to nobody", moves(("pair", 0, ""))),
)

LEAVING: Final = (
    execute("move what is at risk away", RISKY, "--throttle 10"),
    tool("it is moving", f"{TOPICS} --describe --topic risky", until="Replicas: 1,3"),
    step("stop broker 3", _stop_broker_3),
    tool("endpoints without it", "kafka-cluster list-endpoints"),
    tool("endpoints with it", "kafka-cluster list-endpoints --include-fenced-brokers", until="fenced"),
    tool("its partitions", f"{TOPICS} --describe --topic placed", until="Leader: 1\tReplicas: 3,1,2"),
    tool("under replicated ones", f"{TOPICS} --describe --under-replicated-partitions"),
    tool("unavailable ones", f"{TOPICS} --describe --unavailable-partitions"),
    tool("under min isr", f"{TOPICS} --describe --under-min-isr-partitions"),
    tool("at min isr", f"{TOPICS} --describe --at-min-isr-partitions"),
    java("describe the cluster", "describeCluster --fenced"),
    verify("not moved yet", RISKY, "--preserve-throttles"),
    tool("elect it", f"{ELECT} --election-type preferred --topic placed --partition 2"),
    tool("elect nobody uncleanly", f"{ELECT} --election-type unclean --topic lonely --partition 0"),
    tool("elect somebody uncleanly", f"{ELECT} --election-type unclean --topic risky --partition 0"),
    tool("somebody leads", f"{TOPICS} --describe --topic risky", until="Leader: 1"),
    verify("not moved by the election", RISKY, "--preserve-throttles"),
    cancel("no way back", RISKY),
    tool("elect all", f"{ELECT} --election-type preferred --all-topic-partitions"),
    tool("log dirs of one that is gone", f"{LOG_DIRS} --broker-list 3"),
    tool("quorum without it", f"{QUORUM} --status"),
    tool("unregister it", "kafka-cluster unregister --id 3"),
    tool("endpoints when it is forgotten", "kafka-cluster list-endpoints --include-fenced-brokers"),
    tool("places on it", f"{TOPICS} --create --topic late --replica-assignment 1:3"),
    tool("unregister it again", "kafka-cluster unregister --id 3"),
)

SUBJECTS: Final[dict[str, tuple[Case, ...]]] = {
    "creating": CREATING,
    "looking": LOOKING,
    "configs": CONFIGURING,
    "elections": ELECTING,
    "moves": MOVING,
    "a broker leaves": LEAVING,
}
