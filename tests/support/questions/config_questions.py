"""Changes of configs, good and bad, and looks at what they did: one long conversation with a broker.

Each step builds on what the steps before it made, so their order counts. The topics ``plain`` and
``compacted`` are there at the beginning. What is asked of one node by its number is asked of node 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.support.questions.config_questions_beside import beside
from tests.support.questions.config_steps import (
    BROKER,
    TOPIC,
    Change,
    Step,
    alter_step,
    change,
    drop,
    less,
    look_step,
    more,
    put,
)

READ_ONLY: Final = (
    "num.partitions", "log.retention.hours", "auto.create.topics.enable", "broker.rack", "log.dirs",
    "delete.topic.enable",
    "group.max.size",
)  # fmt: skip
BARE: Final = (
    "ssl.keystore.location", "ssl.key.password", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.keystore.type",
)  # fmt: skip


def steps() -> Iterator[Step]:
    """The whole conversation."""
    for maker in (
        topics,
        topic_lists,
        topic_contradictions,
        topic_relations,
        brokers,
        broker_values,
        broker_relations,
        broker_odds,
        broker_listeners,
        cluster,
    ):
        yield from maker()
    yield from beside()


def topics() -> Iterator[Step]:
    """Texts that mean nothing, or nothing good."""

    def alter(name: str, *changes: Change, topic: str = "plain", validate_only: bool = False) -> Step:
        return alter_step(f"topic: {name}", TOPIC, topic, *changes, validate_only=validate_only)

    yield alter("set two", put("retention.ms", "1000"), put("max.message.bytes", "2000"))
    yield look_step("topic: after two", TOPIC, "plain", "retention.ms", "max.message.bytes", "segment.ms")
    yield alter("set again, the same", put("retention.ms", "1000"))
    yield alter("delete one", drop("retention.ms"))
    yield alter("delete with a value", drop("max.message.bytes", "17"))
    yield alter("delete what is not set", drop("retention.bytes"))
    yield alter("delete an unknown config", drop("nonsense"))
    yield alter("an unknown config", put("nonsense", "1"))
    yield alter("two unknown configs", put("nonsense", "1"), put("folly", "2"))
    yield alter("capitals", put("Retention.Ms", "1"))
    yield alter("not a number", put("retention.ms", "long"))
    yield alter("not a number of that size", put("segment.bytes", "3000000000"))
    yield alter("out of range", put("segment.bytes", "3"))
    yield alter("an empty number", put("retention.ms", ""))
    yield alter("blanks around", put("retention.ms", "  77 "))
    yield alter("an item unknown", put("cleanup.policy", "burn"))
    yield alter("a choice unknown", put("compression.type", "rar"))
    yield alter("no boolean", put("preallocate", "yes"))
    yield alter("a ratio above one", put("min.cleanable.dirty.ratio", "1.5"))
    yield alter("a null", put("retention.ms", None))
    yield alter("two nulls", put("retention.ms", None), put("segment.ms", None))
    yield alter("a null appended", more("cleanup.policy", None))


def topic_lists() -> Iterator[Step]:
    """Lists that grow and shrink."""

    def alter(name: str, *changes: Change, topic: str = "plain", validate_only: bool = False) -> Step:
        return alter_step(f"topic: {name}", TOPIC, topic, *changes, validate_only=validate_only)

    yield alter("append", more("cleanup.policy", "compact"))
    yield alter("append what is there", more("cleanup.policy", "compact"))
    yield look_step("topic: after appending", TOPIC, "plain", "cleanup.policy", "retention.ms")
    yield alter("subtract", less("cleanup.policy", "delete"))
    yield alter("subtract what is not there", less("cleanup.policy", "delete"))
    yield look_step("topic: after subtracting", TOPIC, "plain", "cleanup.policy")
    yield alter("subtract the rest", less("cleanup.policy", "compact"))
    yield look_step("topic: an empty policy", TOPIC, "plain", "cleanup.policy")
    yield alter("append two and a comma", more("cleanup.policy", "delete,,compact,"))
    yield look_step("topic: after two and a comma", TOPIC, "plain", "cleanup.policy")
    yield alter("an item twice", put("cleanup.policy", "delete,delete"))
    yield look_step("topic: an item once", TOPIC, "plain", "cleanup.policy")
    yield alter("append a stranger", more("cleanup.policy", "burn"))
    yield alter("append to a number", more("retention.ms", "5"))
    yield alter("subtract from a number", less("retention.ms", "5"))
    yield alter("append to the unknown", more("nonsense", "5"))
    yield alter("append throttled replicas", more("leader.replication.throttled.replicas", "0:1"))
    yield alter("append more of them", more("leader.replication.throttled.replicas", "0:1,1:2"))
    yield alter("subtract one of them", less("leader.replication.throttled.replicas", "0:1"))
    yield look_step("topic: throttled replicas", TOPIC, "plain", "leader.replication.throttled.replicas")
    yield alter("no replicas", put("leader.replication.throttled.replicas", "nil"))


def topic_contradictions() -> Iterator[Step]:
    """Requests that contradict themselves, and names of nothing."""

    def alter(name: str, *changes: Change, topic: str = "plain", validate_only: bool = False) -> Step:
        return alter_step(f"topic: {name}", TOPIC, topic, *changes, validate_only=validate_only)

    yield alter("the same twice", put("retention.ms", "1"), put("retention.ms", "2"))
    yield alter("nothing to do")
    yield alter("no such topic", put("retention.ms", "1"), topic="none-such")
    yield alter("no such topic, a bad value", put("retention.ms", "long"), topic="none-such")
    yield alter("a forbidden name", put("retention.ms", "1"), topic="a/b")
    yield alter("no name", put("retention.ms", "1"), topic="")
    long = [",".join(f"{number}:1" for number in range(each, each + 3000)) for each in (0, 10000)]
    yield alter("a long value", put("follower.replication.throttled.replicas", long[0]))
    yield alter("too long together", more("follower.replication.throttled.replicas", long[1]))
    yield alter("the long value goes", drop("follower.replication.throttled.replicas"))


def topic_relations() -> Iterator[Step]:
    """Configs that do not go together, several resources, and all of it at last."""

    def alter(name: str, *changes: Change, topic: str = "plain", validate_only: bool = False) -> Step:
        return alter_step(f"topic: {name}", TOPIC, topic, *changes, validate_only=validate_only)

    yield alter("lags that cross", put("min.compaction.lag.ms", "9"), put("max.compaction.lag.ms", "8"))
    yield alter("remote storage", put("remote.storage.enable", "true"))
    yield alter("an internal one", put("internal.segment.bytes", "70000"))
    yield look_step("topic: an internal one, seen", TOPIC, "plain", "internal.segment.bytes", "segment.bytes")
    yield alter("an internal one goes", drop("internal.segment.bytes"))
    yield alter("local retention", put("local.retention.ms", "5000"), put("retention.ms", "1000"))
    yield alter("a broker's config", put("log.retention.ms", "1"))
    yield alter("min.insync.replicas, none", put("min.insync.replicas", "0"))
    yield alter("min.insync.replicas", put("min.insync.replicas", "2"))
    yield alter("min.insync.replicas goes", drop("min.insync.replicas"))
    yield alter("only to see", put("retention.ms", "4711"), validate_only=True)
    yield alter("only to see, badly", put("retention.ms", "x"), validate_only=True)
    yield look_step("topic: after seeing", TOPIC, "plain", "retention.ms")
    yield Step(
        "topic: one good, one bad",
        change(
            (TOPIC, "plain", [put("retention.ms", "88")]), (TOPIC, "compacted", [put("retention.ms", "x")])
        ),
        1,
    )
    yield Step(
        "topic: a resource twice",
        change((TOPIC, "plain", [put("retention.ms", "1")]), (TOPIC, "plain", [put("segment.ms", "2")])),
        1,
    )
    yield Step(
        "topic: a resource twice beside a good one",
        change(
            (TOPIC, "plain", [put("retention.ms", "1")]),
            (TOPIC, "compacted", [put("segment.ms", "77777")]),
            (TOPIC, "plain", [put("segment.ms", "2")]),
        ),
        1,
    )
    yield look_step("topic: all of it", TOPIC, "plain")
    yield look_step("topic: all of the other", TOPIC, "compacted")
    yield Step("topic: by the first version", change((TOPIC, "plain", [put("segment.ms", "99999")])), 0)
    yield Step("no resources at all", change(), 1)
    for kind in (0, 1, 3, 64, 77):
        yield Step(f"a resource of kind {kind}", change((kind, "x", [put("a", "b")])), 1)


def brokers() -> Iterator[Step]:
    """Names that may not be changed, or not here."""

    def alter(name: str, *changes: Change, broker: str = "1", validate_only: bool = False) -> Step:
        return alter_step(f"broker: {name}", BROKER, broker, *changes, validate_only=validate_only)

    yield alter("read-only", put("num.partitions", "3"))
    yield alter("two read-only", put("num.partitions", "3"), put("log.retention.hours", "3"))
    yield alter("advertised.listeners", put("advertised.listeners", "PLAINTEXT://127.0.0.1:1"))
    yield alter("a read-only one with a bad value", put("num.partitions", "x"))
    yield alter("delete a read-only one", drop("num.partitions"))
    yield alter("unknown", put("my.plugin.setting", "secret"))
    yield look_step("broker: unknown, seen", BROKER, "1", "my.plugin.setting")
    yield alter("append to the unknown", more("my.plugin.setting", "x"))
    yield alter("subtract from the unknown", less("my.plugin.setting", "x"))
    yield alter("the unknown goes", drop("my.plugin.setting"))
    yield alter("bare security", put("ssl.keystore.location", "/x"))
    yield alter("two of bare security", put("ssl.keystore.location", "/x"), put("ssl.cipher.suites", "y"))
    yield alter("bare sasl", put("sasl.jaas.config", "x"))
    yield alter("read-only and bare security", put("ssl.key.password", "x"), put("num.partitions", "3"))
    yield alter("many read-only", *[put(name, "1") for name in READ_ONLY])
    yield alter("much bare security", *[put(name, "1") for name in BARE])
    yield alter("bare, but not refused", put("ssl.cipher.suites", "y"), put("ssl.protocol", "TLSv1.3"))
    yield alter("bare ones go", drop("ssl.cipher.suites"), drop("ssl.protocol"), drop("sasl.jaas.config"))


def broker_values() -> Iterator[Step]:
    """Values good and bad, seen by the broker and its topics."""

    def alter(name: str, *changes: Change, broker: str = "1", validate_only: bool = False) -> Step:
        return alter_step(f"broker: {name}", BROKER, broker, *changes, validate_only=validate_only)

    yield alter("not a number", put("message.max.bytes", "x"))
    yield alter("out of range", put("message.max.bytes", "-1"))
    yield alter("a choice unknown", put("compression.type", "rar"))
    yield alter("a null", put("message.max.bytes", None))
    yield alter("twice", put("message.max.bytes", "1"), put("message.max.bytes", "2"))
    yield alter("append to a number", more("message.max.bytes", "2"))
    yield alter("no such operation", ("?", "message.max.bytes", "2"))
    yield alter("another broker", put("message.max.bytes", "2000"), broker="7")
    yield alter("no broker", put("message.max.bytes", "2000"), broker="x")
    yield alter("set", put("message.max.bytes", "900000"))
    yield look_step("broker: set, seen", BROKER, "1", "message.max.bytes")
    yield look_step("broker: a topic inherits", TOPIC, "plain", "max.message.bytes")
    yield alter("goes", drop("message.max.bytes"))
    yield alter("only to see", put("message.max.bytes", "4711"), validate_only=True)
    yield alter("only to see, badly", put("message.max.bytes", "x"), validate_only=True)
    yield look_step("broker: after seeing", BROKER, "1", "message.max.bytes")
    yield alter("append", more("log.cleanup.policy", "compact"))
    yield look_step("broker: append, seen", BROKER, "1", "log.cleanup.policy")
    yield alter("subtract", less("log.cleanup.policy", "delete"))
    yield look_step("broker: subtract, seen", BROKER, "1", "log.cleanup.policy")
    yield alter("append badly", more("log.cleanup.policy", "burn"))
    yield alter("policy goes", drop("log.cleanup.policy"))


def broker_relations() -> Iterator[Step]:
    """What a broker cannot go over to from where it is."""

    def alter(name: str, *changes: Change, broker: str = "1", validate_only: bool = False) -> Step:
        return alter_step(f"broker: {name}", BROKER, broker, *changes, validate_only=validate_only)

    for name, now in (("num.io.threads", 8), ("num.network.threads", 3), ("log.cleaner.threads", 1),
                      ("background.threads", 10), ("num.replica.fetchers", 1),
                      ("num.recovery.threads.per.data.dir", 2),
                      ("remote.log.reader.threads", 10)):  # fmt: skip
        yield alter(f"{name} too many", put(name, str(2 * now + 1)))
        yield alter(f"{name} double", put(name, str(2 * now)), validate_only=True)
        yield alter(f"{name} too few", put(name, str(now // 2 - 1)))
    yield alter("max.connections.per.ip.overrides", put("max.connections.per.ip.overrides", "127.0.0.9:5"))
    yield alter("max.connections.per.ip.overrides go", drop("max.connections.per.ip.overrides"))
    yield alter(
        "overrides of a name", put("max.connections.per.ip.overrides", "localhost:5"), validate_only=True
    )
    yield alter("overrides of nobody", put("max.connections.per.ip.overrides", "no.such.host.invalid:5"))
    yield alter("max.connections.per.ip, none", put("max.connections.per.ip", "0"), validate_only=True)
    yield alter("max.connections, none", put("max.connections", "0"))
    yield alter("retention of nothing", put("log.retention.ms", "0"))
    yield alter("retention before time", put("log.retention.ms", "-5"))
    yield look_step("broker: retention before time, seen", BROKER, "1", "log.retention.ms")
    yield look_step("broker: its topics' retention", TOPIC, "compacted", "retention.ms")
    yield alter("retention goes", drop("log.retention.ms"))
    yield alter("roll at once", put("log.roll.ms", "0"))
    yield alter("small segments", put("log.segment.bytes", "1000"))
    yield alter("local retention longer", put("log.local.retention.ms", "800000000"))
    yield alter(
        "local retention larger", put("log.local.retention.bytes", "800"), put("log.retention.bytes", "9")
    )
    yield alter("producer ids that go", put("producer.id.expiration.ms", "0"))
    yield alter("overrides without a limit", put("max.connections.per.ip.overrides", "127.0.0.1"))
    yield alter("overrides of words", put("max.connections.per.ip.overrides", "127.0.0.1:many"))
    yield alter("a rate of none", put("max.connection.creation.rate", "0"))
    yield alter("no local retention", put("log.local.retention.ms", "-1"))
    yield alter("no local retention in bytes", put("log.local.retention.bytes", "-1"))
    yield alter(
        "local retention in bytes", put("log.local.retention.bytes", "-1"), put("log.retention.bytes", "9")
    )
    yield alter("a remote cache of nothing", put("remote.log.index.file.cache.total.size.bytes", "-1"))
    yield alter("no remote copies", put("remote.log.manager.copy.max.bytes.per.second", "0"))
    yield alter("copiers", put("remote.log.manager.copier.thread.pool.size", "0"))
    yield alter("verification", put("transaction.partition.verification.enable", "maybe"))
    yield alter("cordoned twice", put("cordoned.log.dirs", "*,/x"))
    yield alter("a window", put("group.coordinator.cached.buffer.max.bytes", "1"))


def broker_odds() -> Iterator[Step]:
    """Throttles, directories, and what else there is."""

    def alter(name: str, *changes: Change, broker: str = "1", validate_only: bool = False) -> Step:
        return alter_step(f"broker: {name}", BROKER, broker, *changes, validate_only=validate_only)

    yield alter("throttle", put("leader.replication.throttled.rate", "1000"))
    yield look_step("broker: throttle, seen", BROKER, "1", "leader.replication.throttled.rate")
    yield alter("throttle goes", drop("leader.replication.throttled.rate"))
    yield alter("throttle badly", put("follower.replication.throttled.rate", "-1"))
    yield alter("throttle of moves", put("replica.alter.log.dirs.io.max.bytes.per.second", "x"))
    yield alter("cordoned elsewhere", put("cordoned.log.dirs", "/elsewhere"))
    yield alter("cleaner without memory", put("log.cleaner.dedupe.buffer.size", "1"))
    yield alter("cleaner without buffer", put("log.cleaner.io.buffer.size", "1"), validate_only=True)
    yield alter("assignments too often", put("group.consumer.assignment.interval.ms", "-1"))
    yield alter("assignments too rare", put("group.consumer.assignment.interval.ms", "99999999"))
    yield alter("no metric reporter", put("metric.reporters", "no.such.Class"))
    yield alter("no provider", put("config.providers", "file"), validate_only=True)
    yield alter("min.insync.replicas", put("min.insync.replicas", "2"))
    yield alter("min.insync.replicas goes", drop("min.insync.replicas"))
    yield alter("min.insync.replicas, none", put("min.insync.replicas", "0"))
    yield alter("unclean leaders", put("unclean.leader.election.enable", "true"))
    yield alter("unclean leaders go", drop("unclean.leader.election.enable"))


def broker_listeners() -> Iterator[Step]:
    """Configs of single listeners, and listeners themselves."""

    def alter(name: str, *changes: Change, broker: str = "1", validate_only: bool = False) -> Step:
        return alter_step(f"broker: {name}", BROKER, broker, *changes, validate_only=validate_only)

    yield alter("a listener's limit", put("listener.name.plaintext.max.connections", "500"))
    yield look_step(
        "broker: a listener's limit, seen", BROKER, "1", "listener.name.plaintext.max.connections"
    )
    yield alter("a listener's limit, badly", put("listener.name.plaintext.max.connections", "x"))
    yield alter("a listener's limit goes", drop("listener.name.plaintext.max.connections"))
    yield alter("a listener's read-only one", put("listener.name.plaintext.num.partitions", "5"))
    yield alter("a listener's nonsense", put("listener.name.plaintext.nonsense", "5"), validate_only=True)
    yield alter("a listener's secret", put("listener.name.inner.ssl.keystore.password", "abc"))
    yield look_step(
        "broker: a listener's secret, seen", BROKER, "1", "listener.name.inner.ssl.keystore.password"
    )
    yield alter("a listener's secret goes", drop("listener.name.inner.ssl.keystore.password"))
    yield alter(
        "a mechanism's secret", put("listener.name.inner.plain.sasl.jaas.config", "abc"), validate_only=True
    )
    yield alter("listeners elsewhere", put("listeners", "NOWHERE://127.0.0.1:1"))
    yield alter("listeners without the brokers'", put("listeners", "CONTROLLER://127.0.0.1:0"))
    yield alter(
        "protocols that change", put("listener.security.protocol.map", "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT")
    )
    yield alter("protocols that go", put("listener.security.protocol.map", "CONTROLLER:PLAINTEXT"))
    yield alter("a topic's config", put("retention.ms", "1"), validate_only=True)
    yield alter("nothing to do")


def cluster() -> Iterator[Step]:
    def alter(name: str, *changes: Change, validate_only: bool = False) -> Step:
        return alter_step(f"all brokers: {name}", BROKER, "", *changes, validate_only=validate_only)

    yield alter("set", put("log.retention.ms", "86400000"), put("message.max.bytes", "800000"))
    yield look_step("all brokers: set, seen", BROKER, "")
    yield look_step("all brokers: seen by one", BROKER, "1", "log.retention.ms", "message.max.bytes")
    yield look_step("all brokers: seen by a topic", TOPIC, "compacted", "retention.ms", "max.message.bytes")
    yield alter_step("all brokers: one differs", BROKER, "1", put("message.max.bytes", "700000"))
    yield look_step("all brokers: seen by one that differs", BROKER, "1", "message.max.bytes")
    yield look_step("all brokers: seen by its topics", TOPIC, "compacted", "max.message.bytes")
    yield alter("per broker", put("listeners", "PLAINTEXT://:1"))
    yield alter("per broker, two", put("cordoned.log.dirs", "*"), put("listeners", "PLAINTEXT://:1"))
    yield alter("a listener's", put("listener.name.plaintext.ssl.keystore.location", "/x"))
    yield alter("a listener's limit", put("listener.name.plaintext.max.connections", "5"))
    yield alter("bare security", put("ssl.keystore.location", "/x"))
    yield alter("read-only", put("broker.rack", "here"))
    yield alter("unknown", put("my.plugin.setting", "abc"))
    yield look_step("all brokers: unknown, seen", BROKER, "")
    yield look_step("all brokers: unknown, seen by one", BROKER, "1", "my.plugin.setting")
    yield alter("bad value", put("log.retention.ms", "x"))
    yield alter("bad relation", put("log.retention.ms", "0"))
    yield alter("threads", put("num.io.threads", "100"))
    yield alter("append", more("log.cleanup.policy", "compact"))
    yield look_step("all brokers: append, seen", BROKER, "", "log.cleanup.policy")
    yield alter("min.insync.replicas", put("min.insync.replicas", "1"))
    yield alter("min.insync.replicas goes", drop("min.insync.replicas"))
    yield alter_step("all brokers: one is as the rest", BROKER, "1", drop("message.max.bytes"))
    yield alter(
        "all go", drop("log.retention.ms"), drop("message.max.bytes"), drop("log.cleanup.policy"),
        drop("my.plugin.setting"),
    )  # fmt: skip
    yield look_step("all brokers: all gone", BROKER, "")
