"""Typed access, layers of dynamic settings, listeners, and the configs of a topic's log."""

from __future__ import annotations

import msgspec
import pytest

from config.broker_config import BrokerConfig
from config.checks import max_connections_per_ip
from config.dynamic import validate_broker_change
from config.errors import ConfigError, InvalidValue
from config.loading import default_settings, layered, load, one_node_defaults
from config.setting import Setting, Source
from config.topic_config import topic_config, validate_topic_config


def broker(**texts: str) -> BrokerConfig:
    """The one-node config with these keys set; `__` in a name stands for a dash, `_` for a dot."""
    given = [Setting(name.replace("_", "."), text, Source.FILE, "file") for name, text in texts.items()]
    return load(layered(default_settings(one_node_defaults("/data")), given)).config


def test_each_type_has_its_reader() -> None:
    config = broker(log_retention_bytes="123", broker_rack="r1", log_cleaner_min_cleanable_ratio="0.25")
    assert config.integer("log.retention.bytes") == 123
    assert config.text("broker.rack") == "r1"
    assert config.flag("auto.create.topics.enable") is True
    assert config.items("log.cleanup.policy") == ("delete",)
    assert config.number("log.cleaner.min.cleanable.ratio") == 0.25
    assert config.optional_integer("log.retention.ms") is None
    assert config.optional_text("metadata.log.dir") is None
    assert config.items("advertised.listeners") == ()


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        ("integer", "auto.create.topics.enable"),
        ("integer", "log.retention.ms"),
        ("text", "node.id"),
        ("flag", "node.id"),
        ("items", "broker.id"),
        ("number", "node.id"),
    ],
)
def test_the_wrong_reader_is_a_fault_of_ours(reader: str, name: str) -> None:
    with pytest.raises(TypeError, match=name):
        getattr(broker(), reader)(name)


def test_a_name_that_is_no_config_is_a_fault_of_ours() -> None:
    with pytest.raises(KeyError):
        broker().integer("no.such.config")


def test_a_config_cannot_be_changed() -> None:
    config = broker()
    with pytest.raises(TypeError):
        config.static["node.id"] = config.static["node.id"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        config.extra = 1  # type: ignore[attr-defined]


def test_dynamic_settings_lie_over_static_ones() -> None:
    static = broker(log_retention_minutes="1", compression_type="lz4")
    config = static.with_dynamic(
        {"compression.type": "zstd"}, {"compression.type": "gzip", "log.retention.ms": "99"}
    )
    assert config.text("compression.type") == "zstd"
    assert config.retention_ms == 99
    assert config.explain("compression.type") == "compression.type = zstd (dynamic for this broker)"
    assert config.explain("log.retention.ms") == "log.retention.ms = 99 (dynamic for all brokers)"
    assert static.text("compression.type") == "lz4"
    assert config.with_dynamic({}, {}).retention_ms == 60_000


def test_stored_dynamic_settings_that_make_no_sense_are_left_out_and_named() -> None:
    config = broker().with_dynamic(
        {"num.partitions": "7", "message.max.bytes": "many", "plugin.key": "x"},
        {"listeners": "PLAINTEXT://:1", "log.segment.bytes": "2000000"},
    )
    assert config.integer("num.partitions") == 1
    assert config.integer("message.max.bytes") == 1_048_588
    assert config.integer("log.segment.bytes") == 2_000_000
    assert [problem.split()[0] for problem in config.refused] == ["listeners", "Invalid", "num.partitions"]


@pytest.mark.parametrize(
    ("texts", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log_retention_hours": "2"}, 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 180_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
        ({"log_retention_minutes": "-1"}, -1),
        ({"log_retention_ms": "-700"}, -1),
    ],
)
def test_retention_in_three_units(texts: dict[str, str], retention_ms: int) -> None:
    config = broker(**texts)
    assert config.retention_ms == retention_ms
    assert topic_config(config, {}).retention_ms == retention_ms


def test_listeners_in_every_form() -> None:
    config = broker(
        listeners="PLAINTEXT://[::1]:9092,internal://0.0.0.0:19092,CONTROLLER://:9093",
        advertised_listeners="PLAINTEXT://broker.example.org:443,INTERNAL://10.0.0.1:19092",
        listener_security_protocol_map="PLAINTEXT:plaintext, INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="internal",
    )
    assert [str(endpoint) for endpoint in config.broker_listeners] == [
        "PLAINTEXT://[::1]:9092",
        "INTERNAL://0.0.0.0:19092",
    ]
    assert [str(endpoint) for endpoint in config.advertised_listeners] == [
        "PLAINTEXT://broker.example.org:443",
        "INTERNAL://10.0.0.1:19092",
    ]
    assert [str(endpoint) for endpoint in config.advertised_controller_listeners] == ["CONTROLLER://:9093"]
    assert config.inter_broker_listener_name == "INTERNAL"


@pytest.mark.parametrize(("bound", "reached"), [("0.0.0.0", ""), ("[::]", "[::]"), ("", "")])
def test_a_controller_on_all_interfaces_is_reached_by_the_name_of_its_host(bound: str, reached: str) -> None:
    config = broker(listeners=f"PLAINTEXT://localhost:9092,CONTROLLER://{bound}:9093")
    told = [str(endpoint) for endpoint in config.advertised_controller_listeners]
    assert told == [f"CONTROLLER://{reached}:9093"]


@pytest.mark.parametrize("port", ["-1", "65536", "99999999999", "9" * 5000])
@pytest.mark.parametrize("key", ["listeners", "advertised_listeners"])
def test_a_number_that_is_no_port_is_refused_with_key_value_and_range(key: str, port: str) -> None:
    text = f"PLAINTEXT://localhost:{port}"
    with pytest.raises(ConfigError) as refused:
        broker(**{key: f"{text},CONTROLLER://:9093"})
    line = f"{key.replace('_', '.')}: the port of {text} is not between 0 and 65535"
    assert line in str(refused.value)


@pytest.mark.parametrize("key", ["log_dirs", "metadata_log_dir"])
def test_a_path_with_a_nul_character_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=r"^Nul character not allowed in a path .*: '/a\\x00b'"):
        broker(**{key: "/a\0b"})


def test_a_listener_is_advertised_only_if_it_listens() -> None:
    with pytest.raises(ConfigError, match="must be equal to or a subset of the ones defined in listeners"):
        broker(
            advertised_listeners="PLAINTEXT://a:1,OTHER://b:2",
            listener_security_protocol_map=("PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        )


def test_pairs_in_one_text_are_trimmed_as_in_java() -> None:
    config = broker(
        listener_security_protocol_map="PLAINTEXT : plaintext\0, CONTROLLER:\x1bPLAINTEXT ,",
        max_connections_per_ip_overrides="127.0.0.1 : 200\0 , ::1:\x1b3,,",
    )
    assert config.listener_protocols == {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    assert max_connections_per_ip(config) == {"127.0.0.1": 200, "::1": 3}
    with pytest.raises(ConfigError, match="Invalid security protocol `\u00a0PLAINTEXT` defined in"):
        broker(listener_security_protocol_map="PLAINTEXT:\u00a0PLAINTEXT,CONTROLLER:PLAINTEXT")


def test_voters_and_limits_by_address() -> None:
    config = broker(
        controller_quorum_voters="1@127.0.0.1:9093,2@[::1]:9094",
        max_connections_per_ip_overrides="127.0.0.1:200, broker.example.org:7,[::1]:3",
    )
    assert [(voter.node_id, voter.host, voter.port) for voter in config.quorum_voters] == [
        (1, "127.0.0.1", 9093),
        (2, "::1", 9094),
    ]
    assert max_connections_per_ip(config) == {"127.0.0.1": 200, "broker.example.org": 7, "::1": 3}


JAVA_ASSIGNOR = "org.apache.kafka.coordinator.group.assignor."


@pytest.mark.parametrize(
    ("text", "assignors"),
    [
        ("range", ("range",)),
        (f"{JAVA_ASSIGNOR}RangeAssignor,{JAVA_ASSIGNOR}UniformAssignor", ("range", "uniform")),
        (f"uniform,{JAVA_ASSIGNOR}UniformAssignor", ("uniform",)),
    ],
)
def test_assignors_go_by_their_names_and_by_kafkas_classes(text: str, assignors: tuple[str, ...]) -> None:
    assert broker(group_consumer_assignors=text).consumer_group_assignors == assignors
    assert broker().consumer_group_assignors == ("uniform", "range")


@pytest.mark.parametrize("name", ["org.example.Mine", "Uniform"])
def test_an_assignor_that_nobody_has_stops_the_start_with_the_remedy(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not served here; name uniform or range.*at file"):
        broker(group_consumer_assignors=f"range,{name}")


def test_a_topic_follows_its_broker_until_it_decides_itself() -> None:
    config = broker(log_segment_bytes="2000000", log_cleanup_policy="compact", log_roll_ms="5")
    inherited = topic_config(config, {})
    assert inherited.segment_bytes == 2_000_000
    assert inherited.segment_ms == 5
    assert inherited.compacts
    assert not inherited.deletes
    own = topic_config(
        config,
        {
            "segment.bytes": "3000000",
            "cleanup.policy": "delete , compact",
            "message.timestamp.type": "LogAppendTime",
            "a.config.of.tomorrow": "1",
        },
    )
    assert own.segment_bytes == 3_000_000
    assert own.cleanup_policy == ("delete", "compact")
    assert own.stamps_append_time
    dynamic = config.with_dynamic({}, {"log.segment.bytes": "4000000"})
    assert topic_config(dynamic, {}).segment_bytes == 4_000_000
    with pytest.raises(AttributeError):
        own.segment_bytes = 1  # type: ignore[misc]


def test_a_small_segment_is_possible_for_tests_only_by_its_internal_name() -> None:
    values = topic_config(broker(), {"internal.segment.bytes": "1024", "segment.bytes": "2000000"})
    assert values.segment_bytes == 1024
    assert msgspec.structs.asdict(values)["segment_bytes"] == 1024
    with pytest.raises(InvalidValue, match="Value must be at least 1048576"):
        validate_topic_config({"segment.bytes": "1024"}, broker())


@pytest.mark.parametrize(
    ("name", "text", "used"),
    [
        ("segment.bytes", "14", 1_048_576),
        ("min.cleanable.dirty.ratio", "1.5", 1),
        ("compression.type", "best", "snappy"),
        ("retention.ms", "-5", -1),
        ("retention.ms", "for ever", -1),
        ("retention.bytes", "all", -1),
        ("cleanup.policy", "compact,archive", ()),
    ],
)
def test_a_topics_stored_setting_that_is_not_valid_is_the_nearest_and_deletes_nothing(
    name: str, text: str, used: object
) -> None:
    config = broker(log_retention_bytes="1000", compression_type="snappy")
    values = topic_config(config, {name: text, "min.insync.replicas": "2"})
    assert getattr(values, name.replace(".", "_")) == used
    assert values.min_insync_replicas == 2
    (fault,) = values.faults
    assert fault.startswith("Invalid value ")


def test_a_topic_config_without_value_is_refused() -> None:
    with pytest.raises(InvalidValue, match="Null value not supported for topic configs: retention"):
        validate_topic_config({"retention.ms": None}, broker())


def test_thread_pools_change_by_half_or_double() -> None:
    config = broker()
    validate_broker_change({"num.io.threads": "16", "num.network.threads": "2"}, config, per_broker=True)
    with pytest.raises(InvalidValue, match="not be greater than double the current value 8"):
        validate_broker_change({"num.io.threads": "17"}, config, per_broker=True)
    with pytest.raises(InvalidValue, match="at least half the current value 8"):
        validate_broker_change({"num.io.threads": "3"}, config, per_broker=True)
    doubled = config.with_dynamic({"num.io.threads": "16"}, {})
    validate_broker_change({"num.io.threads": "32"}, doubled, per_broker=True)


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_no_open_listener_can_be_shut(name: str, prefix: str) -> None:
    config = broker()
    with pytest.raises(InvalidValue, match=f"ConfigException: Invalid {name} 0 for configuration"):
        validate_broker_change({prefix + name: "0"}, config, per_broker=False)
    validate_broker_change({f"listener.name.elsewhere.{name}": "0"}, config, per_broker=False)
    validate_broker_change({name: "0", f"listener.name.plaintext.{name}": "5"}, config, per_broker=False)


def test_an_advertised_listener_cannot_be_taken_away() -> None:
    inner, client, added, controller = (
        f"{name}://127.0.0.1:{port}"
        for name, port in (("INNER", 1), ("CLIENT", 2), ("ADDED", 3), ("CONTROLLER", 4))
    )
    config = broker(
        listeners=f"{inner},{client},{controller}",
        inter_broker_listener_name="INNER",
        listener_security_protocol_map=",".join(
            f"{name}:PLAINTEXT" for name in ("INNER", "CLIENT", "ADDED", "CONTROLLER")
        ),
    )
    with pytest.raises(
        InvalidValue,
        match=r"Advertised listeners 'Set\(ListenerName\(INNER\), ListenerName\(CLIENT\)\)' must be a subset "
        r"of listeners 'Set\(ListenerName\(INNER\), ListenerName\(CONTROLLER\)\)'",
    ):
        validate_broker_change({"listeners": f"{inner},{controller}"}, config, per_broker=True)
    both = {"listeners": f"{inner},{client},{added},{controller}"}
    validate_broker_change(both, config, per_broker=True)
    grown = config.with_dynamic(both, {})
    validate_broker_change({}, grown, per_broker=True)
    lost = config.with_dynamic({"listeners": f"{inner},{controller}"}, {})
    validate_broker_change({**lost.dynamic_broker, "log.retention.ms": "5"}, lost, per_broker=True)


def test_what_the_authorizer_is_told() -> None:
    config = broker()
    assert not config.has_authorizer
    assert (config.super_users, config.allows_everyone_without_acls) == (frozenset(), False)
    assert config.early_start_listeners == {"CONTROLLER"}
    config = broker(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users=" User:a;User:CN=b,O=c ; ",
        allow_everyone_if_no_acl_found=" TRUE",
        early_start_listeners="",
    )
    assert config.has_authorizer
    assert config.super_users == {"User:a", "User:CN=b,O=c"}
    assert config.allows_everyone_without_acls
    assert config.early_start_listeners == frozenset()
    assert broker(early_start_listeners="plaintext").early_start_listeners == {"PLAINTEXT"}
    assert not broker(allow_everyone_if_no_acl_found="yes").allows_everyone_without_acls, "as Kafka reads it"
