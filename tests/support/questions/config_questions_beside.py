"""The conversation of `config_questions`, beside topics and brokers: loggers, subscriptions, groups, lists,
the older request, and the controller's own listener.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.questions.config_steps import (
    BROKER,
    CLIENT_METRICS,
    CONTROLLER_SIDE,
    GROUP,
    LOGGER,
    TOPIC,
    Change,
    Step,
    alter_step,
    change,
    drop,
    less,
    look,
    look_step,
    more,
    put,
    replace,
    replace_twice,
)


def beside() -> Iterator[Step]:
    """The second half of the conversation."""
    for maker in (
        loggers,
        client_metrics,
        groups,
        lists,
        replacements,
        controllers,
        controllers_further,
        controllers_replace,
    ):
        yield from maker()


def loggers() -> Iterator[Step]:
    def alter(name: str, *changes: Change, broker: str = "1", validate_only: bool = False) -> Step:
        return alter_step(f"loggers: {name}", LOGGER, broker, *changes, validate_only=validate_only)

    yield alter("root", put("root", "WARN"))
    yield look_step("loggers: root, seen", LOGGER, "1", "root")
    yield alter("root, deleted", drop("root"))
    yield alter("no such logger", put("no.such.logger", "INFO"))
    yield alter("no such logger goes", drop("no.such.logger"))
    yield alter("no such level", put("root", "LOUD"))
    yield alter("small letters", put("root", "info"))
    yield alter("append", more("root", "INFO"))
    yield alter("subtract", less("root", "INFO"))
    yield alter("no such operation", ("?", "root", "INFO"))
    yield alter("a null", put("root", None))
    yield alter("twice", put("root", "INFO"), put("root", "WARN"))
    yield alter("another broker", put("root", "INFO"), broker="7")
    yield alter("no broker", put("root", "INFO"), broker="x")
    yield alter("an empty name", put("root", "INFO"), broker="")
    yield alter("one good, one bad", put("root", "ERROR"), put("no.such.logger", "INFO"))
    yield alter("only to see", put("root", "TRACE"), validate_only=True)
    yield alter("only to see, badly", put("root", "LOUD"), validate_only=True)
    yield look_step("loggers: root, still", LOGGER, "1", "root")
    yield alter("root again", put("root", "INFO"))
    yield look_step("loggers: of another broker", LOGGER, "7")
    yield look_step("loggers: of no broker", LOGGER, "x")
    yield look_step("loggers: of an empty name", LOGGER, "")
    yield look_step("loggers: an unknown one", LOGGER, "1", "no.such.logger")


def client_metrics() -> Iterator[Step]:
    def alter(name: str, *changes: Change, subscription: str = "abo", validate_only: bool = False) -> Step:
        return alter_step(
            f"metrics: {name}", CLIENT_METRICS, subscription, *changes, validate_only=validate_only
        )

    yield look_step("metrics: none yet", CLIENT_METRICS, "abo")
    yield alter("set", put("interval.ms", "1000"), put("metrics", "org.apache.kafka.producer.,x"))
    yield alter("match", put("match", "client_id=.*,client_software_name=apache.*"))
    yield look_step("metrics: set, seen", CLIENT_METRICS, "abo")
    yield alter("too often", put("interval.ms", "99"))
    yield alter("too rarely", put("interval.ms", "3600001"))
    yield alter("not a number", put("interval.ms", "x"))
    yield alter("no such key", put("nonsense", "1"))
    yield alter("no such client key", put("match", "client_hat=red"))
    yield alter("no pattern", put("match", "client_id=["))
    yield alter("no equals sign", put("match", "client_id"))
    yield alter("two equals signs", put("match", "client_id=a=b"))
    yield alter("append", more("metrics", "y"))
    yield alter("subtract", less("metrics", "x"))
    yield alter("append to a number", more("interval.ms", "5"))
    yield alter("a null", put("metrics", None))
    yield look_step("metrics: after appending", CLIENT_METRICS, "abo", "metrics")
    yield alter("no metrics", put("metrics", ""))
    yield alter("all metrics", put("metrics", "*"))
    yield alter("an empty name", put("metrics", "*"), subscription="")
    yield alter("a second", put("metrics", "*"), subscription="zweites")
    yield alter("only to see", put("metrics", "*"), subscription="drittes", validate_only=True)
    yield Step("metrics: listed", ListConfigResourcesRequest(), 0)
    yield alter("all gone", drop("metrics"), drop("interval.ms"), drop("match"))
    yield look_step("metrics: all gone, seen", CLIENT_METRICS, "abo")
    yield look_step("metrics: of an empty name", CLIENT_METRICS, "")
    yield Step("metrics: listed again", ListConfigResourcesRequest(), 0)


def groups() -> Iterator[Step]:
    def alter(name: str, *changes: Change, group: str = "gruppe", validate_only: bool = False) -> Step:
        return alter_step(f"group: {name}", GROUP, group, *changes, validate_only=validate_only)

    yield look_step("group: nothing yet", GROUP, "gruppe")
    yield alter(
        "set", put("consumer.session.timeout.ms", "50000"), put("share.isolation.level", "read_committed")
    )
    yield look_step(
        "group: set, seen", GROUP, "gruppe", "consumer.session.timeout.ms", "share.isolation.level"
    )
    yield alter("below the least", put("consumer.session.timeout.ms", "100"))
    yield alter("above the most", put("consumer.session.timeout.ms", "99999999"))
    yield alter(
        "heartbeats too rare",
        put("consumer.heartbeat.interval.ms", "15000"),
        put("consumer.session.timeout.ms", "45001"),
    )
    yield alter(
        "a heartbeat longer than the session",
        put("consumer.session.timeout.ms", "45000"),
        put("consumer.heartbeat.interval.ms", "46000"),
    )
    yield alter("zero", put("consumer.session.timeout.ms", "0"))
    yield alter("not a number", put("consumer.session.timeout.ms", "x"))
    yield alter("unknown", put("nonsense", "1"))
    yield alter("null", put("consumer.session.timeout.ms", None))
    yield alter("append", more("share.isolation.level", "x"))
    yield alter("a level unknown", put("share.isolation.level", "wild"))
    yield alter("a start unknown", put("share.auto.offset.reset", "middle"))
    yield alter("a start by duration", put("share.auto.offset.reset", "by_duration:PT5M"))
    yield alter("a start by no duration", put("share.auto.offset.reset", "by_duration:5 minutes"))
    yield alter("locks", put("share.record.lock.duration.ms", "70000"))
    yield alter("few locks", put("share.record.lock.duration.ms", "1001"))
    yield alter("deliveries", put("share.delivery.count.limit", "1"))
    yield alter("many deliveries", put("share.delivery.count.limit", "11"))
    yield alter("many locks", put("share.partition.max.record.locks", "100000"))
    yield alter("standbys", put("streams.num.standby.replicas", "9"))
    yield alter(
        "assignments",
        put("consumer.assignment.interval.ms", "700"),
        put("streams.assignment.interval.ms", "99999999"),
    )
    yield alter(
        "streams", put("streams.session.timeout.ms", "46000"), put("streams.num.standby.replicas", "1")
    )
    yield alter("an empty name", put("consumer.session.timeout.ms", "50000"), group="")
    yield alter(
        "only to see", put("consumer.session.timeout.ms", "51000"), group="andere", validate_only=True
    )
    yield look_step("group: all of it", GROUP, "gruppe")
    yield look_step("group: of an empty name", GROUP, "")
    yield alter("delete", drop("consumer.session.timeout.ms"), drop("nonsense"))
    yield alter("a second", put("streams.num.standby.replicas", "2"), group="zweite")


def lists() -> Iterator[Step]:
    for kinds in ([], [TOPIC], [BROKER], [LOGGER], [CLIENT_METRICS], [GROUP], [GROUP, CLIENT_METRICS], [0],
                  [77], [TOPIC, 77], [TOPIC, TOPIC]):  # fmt: skip
        yield Step(f"list {kinds}", ListConfigResourcesRequest(kinds), 1)


def replacements() -> Iterator[Step]:
    def swap(name: str, kind: int, resource: str, configs: dict[str, str | None], version: int = 2) -> Step:
        return Step(f"replace: {name}", replace((kind, resource, configs)), version)

    yield swap("topic", TOPIC, "plain", {"retention.ms": "5000", "segment.ms": "6000"})
    yield swap("topic again", TOPIC, "plain", {"retention.ms": "5001"}, version=0)
    yield look_step("replace: topic, seen", TOPIC, "plain", "retention.ms", "segment.ms", "cleanup.policy")
    yield swap("unknown config", TOPIC, "plain", {"nonsense": "1"})
    yield swap("bad value", TOPIC, "plain", {"retention.ms": "x"})
    yield swap("null", TOPIC, "plain", {"retention.ms": None})
    yield swap("no such topic", TOPIC, "none-such", {"retention.ms": "1"})
    yield swap("forbidden topic", TOPIC, "a/b", {"retention.ms": "1"})
    yield Step("replace: a config twice", replace_twice(TOPIC, "plain", "retention.ms"), 2)
    yield Step("replace: only to see", replace((TOPIC, "plain", {}), validate_only=True), 2)
    yield look_step("replace: after seeing", TOPIC, "plain", "retention.ms")
    yield swap("by nothing", TOPIC, "plain", {})
    yield look_step("replace: by nothing, seen", TOPIC, "plain", "retention.ms")
    yield swap("broker", BROKER, "1", {"message.max.bytes": "600000", "log.retention.ms": "70000"})
    yield swap("broker again", BROKER, "1", {"message.max.bytes": "500000"})
    yield look_step("replace: broker, seen", BROKER, "1", "message.max.bytes", "log.retention.ms")
    yield swap("broker, read-only", BROKER, "1", {"num.partitions": "2"})
    yield swap("broker, bad value", BROKER, "1", {"message.max.bytes": "x"})
    yield swap("broker, null", BROKER, "1", {"message.max.bytes": None})
    yield swap("another broker", BROKER, "7", {"message.max.bytes": "1000"})
    yield swap("broker, by nothing", BROKER, "1", {})
    yield swap("all brokers", BROKER, "", {"log.retention.ms": "80000"})
    yield swap("all brokers, per broker", BROKER, "", {"listeners": "PLAINTEXT://:1"})
    yield swap("all brokers, by nothing", BROKER, "", {})
    yield swap("loggers", LOGGER, "1", {"root": "INFO"})
    yield swap("a subscription", CLIENT_METRICS, "zweites", {"interval.ms": "5000"})
    yield look_step("replace: a subscription, seen", CLIENT_METRICS, "zweites")
    yield swap("one group", GROUP, "zweite", {"share.session.timeout.ms": "46000"})
    yield look_step(
        "replace: a group", GROUP, "zweite", "streams.num.standby.replicas", "share.session.timeout.ms"
    )
    for kind in (0, 1, 77):
        yield swap(f"a resource of kind {kind}", kind, "x", {"a": "b"})


def controllers() -> Iterator[Step]:
    """The same at the controller's own listener, which has its own checks."""

    def alter(name: str, kind: int, resource: str, *changes: Change, validate_only: bool = False) -> Step:
        request = change((kind, resource, changes), validate_only=validate_only)
        return Step(f"controller: {name}", request, 1, CONTROLLER_SIDE)

    yield alter("topic", TOPIC, "plain", put("retention.ms", "123000"))
    yield alter("topic, bad value", TOPIC, "plain", put("retention.ms", "x"))
    yield alter("topic, null", TOPIC, "plain", put("retention.ms", None))
    yield alter("topic, a null deleted", TOPIC, "plain", drop("retention.ms"))
    yield alter("topic, twice", TOPIC, "plain", put("retention.ms", "1"), put("retention.ms", "2"))
    yield alter("no such topic", TOPIC, "none-such", put("retention.ms", "1"))
    yield alter("a forbidden topic", TOPIC, "a/b", put("retention.ms", "1"))
    yield alter("a topic without name", TOPIC, "", put("retention.ms", "1"))
    yield alter("broker", BROKER, "1", put("message.max.bytes", "654321"))
    yield Step("controller: broker, seen", look(BROKER, "1", "message.max.bytes"), 4, CONTROLLER_SIDE)
    yield alter("broker, read-only", BROKER, "1", put("num.partitions", "5"), validate_only=True)
    yield alter("broker, bad value", BROKER, "1", put("message.max.bytes", "x"), validate_only=True)
    yield alter("broker, append", BROKER, "1", more("message.max.bytes", "x"))
    yield alter("broker, back", BROKER, "1", drop("message.max.bytes"))
    yield alter("another broker", BROKER, "7", put("message.max.bytes", "1000"))
    yield alter("no broker", BROKER, "x", put("message.max.bytes", "1000"))
    yield alter("a broker below zero", BROKER, "-1", put("message.max.bytes", "1000"))
    yield alter("all brokers", BROKER, "", put("message.max.bytes", "654322"))
    yield Step("controller: all brokers, seen", look(BROKER, ""), 4, CONTROLLER_SIDE)
    yield alter("all brokers, back", BROKER, "", drop("message.max.bytes"))


def controllers_further() -> Iterator[Step]:
    """Loggers, subscriptions, groups and repetitions there."""

    def alter(name: str, kind: int, resource: str, *changes: Change, validate_only: bool = False) -> Step:
        request = change((kind, resource, changes), validate_only=validate_only)
        return Step(f"controller: {name}", request, 1, CONTROLLER_SIDE)

    yield alter("loggers", LOGGER, "1", put("root", "INFO"))
    yield alter("loggers, no such level", LOGGER, "1", put("root", "LOUD"))
    yield alter("loggers, no such one", LOGGER, "1", put("no.such.logger", "INFO"))
    yield alter("loggers, another", LOGGER, "7", put("root", "INFO"))
    yield Step("controller: loggers, seen", look(LOGGER, "1", "root"), 4, CONTROLLER_SIDE)
    yield alter("subscription", CLIENT_METRICS, "viertes", put("interval.ms", "99"))
    yield alter("subscription without name", CLIENT_METRICS, "", put("interval.ms", "1000"))
    yield alter("group", GROUP, "vierte", put("consumer.session.timeout.ms", "5"))
    yield alter("group without name", GROUP, "", put("consumer.session.timeout.ms", "50000"))
    yield alter("append to a number", TOPIC, "plain", more("retention.ms", "1"))
    yield alter("append to the unknown", TOPIC, "plain", more("nonsense", "1"))
    yield alter("append to a broker's unknown", BROKER, "1", more("nonsense", "1"))
    yield Step(
        "controller: a resource twice",
        change((TOPIC, "plain", [put("retention.ms", "1")]), (TOPIC, "plain", [put("segment.ms", "2")])),
        1,
        CONTROLLER_SIDE,
    )
    yield Step(
        "controller: a resource three times",
        change(*[(TOPIC, "plain", [put("retention.ms", "1")])] * 3),
        1,
        CONTROLLER_SIDE,
    )


def controllers_replace() -> Iterator[Step]:
    """Kinds that nobody knows, and the older request."""

    def alter(name: str, kind: int, resource: str, *changes: Change, validate_only: bool = False) -> Step:
        request = change((kind, resource, changes), validate_only=validate_only)
        return Step(f"controller: {name}", request, 1, CONTROLLER_SIDE)

    for kind in (0, 1, 77):
        yield alter(f"a resource of kind {kind}", kind, "x", put("a", "b"))
    for name, kind, resource, configs in (
        ("topic", TOPIC, "plain", {"retention.ms": "55000"}),
        ("topic, null", TOPIC, "plain", {"retention.ms": None}),
        ("topic, bad", TOPIC, "plain", {"retention.ms": "x"}),
        ("no such topic", TOPIC, "none-such", {"retention.ms": "1"}),
        ("another broker", BROKER, "7", {"message.max.bytes": "1000"}),
        ("loggers", LOGGER, "1", {"root": "INFO"}),
        ("a kind unknown", 77, "x", {"a": "b"}),
    ):
        yield Step(f"controller: replace {name}", replace((kind, resource, configs)), 2, CONTROLLER_SIDE)
    yield Step(
        "controller: replace a config twice",
        replace_twice(TOPIC, "plain", "retention.ms"),
        2,
        CONTROLLER_SIDE,
    )
    yield Step(
        "controller: replace a resource twice",
        replace((TOPIC, "plain", {"retention.ms": "1"}), (TOPIC, "plain", {"segment.ms": "2"})),
        2,
        CONTROLLER_SIDE,
    )
    yield look_step("controller: what is left", TOPIC, "plain", "retention.ms")
