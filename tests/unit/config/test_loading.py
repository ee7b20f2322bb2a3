"""From file, environment and command line to one config: who wins, who is warned, who is refused and how."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from config.environment import read_environment, read_overrides
from config.errors import ConfigError
from config.loading import (
    Loaded,
    default_settings,
    file_settings,
    layered,
    load,
    one_node_defaults,
)
from config.setting import Source

CONFIG_FOLDER: Final = Path(__file__).resolve().parents[3] / "config"


def loaded(
    file: str = "", environment: dict[str, str] | None = None, overrides: tuple[str, ...] = ()
) -> Loaded:
    return load(
        layered(
            default_settings(one_node_defaults("/data")),
            file_settings("server.properties", file.encode("iso-8859-1")),
            read_environment(environment or {}),
            read_overrides(overrides),
        )
    )


def test_the_command_line_beats_the_environment_beats_the_file_beats_the_default() -> None:
    file = "num.partitions=2\nlog.roll.hours=2\nmessage.max.bytes=2\n"
    environment = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_ROLL_HOURS": "3"}
    config = loaded(file, environment, ("num.partitions=4",)).config
    assert config.integer("num.partitions") == 4
    assert config.integer("log.roll.hours") == 3
    assert config.integer("message.max.bytes") == 2
    assert config.integer("default.replication.factor") == 1
    assert config.explain("num.partitions") == "num.partitions = 4 (--override)"
    assert config.explain("log.roll.hours").endswith("(environment variable KAFKA_LOG_ROLL_HOURS)")
    assert config.explain("message.max.bytes").endswith("(server.properties line 3)")
    assert config.explain("default.replication.factor").endswith("(default)")
    assert config.static["message.max.bytes"].source is Source.FILE


def test_one_node_needs_no_file() -> None:
    start = loaded()
    config = start.config
    assert start.warnings == ()
    assert config.node_id == 1
    assert config.is_broker
    assert config.is_controller
    assert config.log_directories == ("/data",)
    assert [str(endpoint) for endpoint in config.broker_listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert [str(endpoint) for endpoint in config.controller_listeners] == ["CONTROLLER://127.0.0.1:9093"]
    assert config.integer("offsets.topic.replication.factor") == 1
    assert config.integer("group.initial.rebalance.delay.ms") == 0


def test_who_moves_the_listeners_of_one_node_need_not_name_the_controllers() -> None:
    config = loaded(overrides=("listeners=PLAINTEXT://127.0.0.1:19092",)).config
    assert [str(endpoint) for endpoint in config.broker_listeners] == ["PLAINTEXT://127.0.0.1:19092"]
    assert [str(endpoint) for endpoint in config.controller_listeners] == ["CONTROLLER://127.0.0.1:0"]
    named = loaded(overrides=("listeners=PLAINTEXT://:19092,controller://:19093",)).config
    assert [str(endpoint) for endpoint in named.controller_listeners] == ["CONTROLLER://:19093"]
    with pytest.raises(ConfigError, match="must contain at least one value appearing in the 'listeners'"):
        loaded("controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:1\n")


@pytest.mark.parametrize("name", ["server.properties", "server.yaml"])
def test_the_example_files_start_a_node_and_promise_nothing(name: str) -> None:
    path = CONFIG_FOLDER / name
    result = load(layered(file_settings(name, path.read_bytes())))
    assert result.config.log_directories == ("./data",)
    assert result.config.inter_broker_listener_name == "PLAINTEXT"
    assert result.config.admin_listener == ("127.0.0.1", 9644)
    assert [warning for warning in result.warnings if "unknown" in warning] == []


def test_both_example_files_say_the_same() -> None:
    texts = [
        {setting.name: setting.text for setting in file_settings(name, (CONFIG_FOLDER / name).read_bytes())}
        for name in ("server.properties", "server.yaml")
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("file", "start", "end"),
    [
        (
            "node.id=1\nnum.partitions = many\n",
            "server.properties line 2: num.partitions=many: Invalid value many for configuration ",
            "num.partitions: Not a number of type INT (allowed: int [1,...])",
        ),
        (
            "compression.type=brotli",
            "server.properties line 1: compression.type=brotli: Invalid value brotli for ",
            " (allowed: string [uncompressed, zstd, lz4, snappy, gzip, producer])",
        ),
        (
            "auto.create.topics.enable=a\\nb",
            "server.properties line 1: auto.create.topics.enable=a\\nb: Invalid value a\\nb for ",
            "Expected value to be either true or false (allowed: boolean true or false)",
        ),
        (
            "barnabas.record.validation=some",
            "server.properties line 1: barnabas.record.validation=some: ",
            "String must be one of: auto, full (allowed: string [auto, full])",
        ),
    ],
)
def test_a_wrong_value_stops_the_start_with_one_line(file: str, start: str, end: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(file)
    assert str(refused.value).startswith(start)
    assert str(refused.value).endswith(end)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("node_id", ["3333333333", "2147483648", "-2147483649", "+", "1_0"])
def test_the_id_of_a_voter_is_a_number_of_32_bits(node_id: str) -> None:
    with pytest.raises(ConfigError, match=f"parse voter ID as an integer from {re.escape(node_id)} "):
        loaded(f"controller.quorum.voters={node_id}@localhost:9093")
    assert loaded("controller.quorum.voters=+1@localhost:9093").config.quorum_voters[0].node_id == 1


def test_a_wrong_value_from_elsewhere_is_named_by_its_place() -> None:
    with pytest.raises(ConfigError, match=r"^environment variable KAFKA_NODE_ID: node[.]id=x"):
        loaded(environment={"KAFKA_NODE_ID": "x"})
    with pytest.raises(ConfigError, match=r"^--override: node[.]id=-1"):
        loaded(overrides=("node.id=-1",))
    with pytest.raises(ConfigError, match="expected NAME=VALUE"):
        loaded(overrides=("node.id",))


def test_an_overruled_value_may_be_wrong() -> None:
    assert (
        loaded("num.partitions=many", overrides=("num.partitions=3",)).config.integer("num.partitions") == 3
    )


def test_an_unknown_key_is_a_warning_that_keeps_its_value_to_itself() -> None:
    warnings = loaded("zookeeper.connect=user:geheim@host\n").warnings
    assert warnings == ("unknown configs, without effect: zookeeper.connect (server.properties line 1)",)


def test_what_is_set_without_effect_is_named_in_one_warning() -> None:
    unused = "num.io.threads=16\nremote.log.reader.threads=2\nsasl.server.max.receive.size=524288\n"
    (warning,) = loaded(unused).warnings
    assert "not used yet: remote.log.reader.threads" in warning
    assert "ignored: num.io.threads" in warning
    assert "sasl.server.max.receive.size" not in warning  # set to its default: nothing is promised


def test_secrets_are_never_shown() -> None:
    config = loaded(
        "ssl.key.password=geheim\nlistener.name.a.ssl.key.password=geheim\nmy.plugin.key=geheim"
    ).config
    for name in ("ssl.key.password", "listener.name.a.ssl.key.password", "my.plugin.key"):
        assert "geheim" not in config.explain(name)
        assert "[hidden]" in config.explain(name)


def test_a_file_that_is_no_config_is_refused() -> None:
    with pytest.raises(ConfigError, match="too many"):
        file_settings("server.properties", b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="not UTF-8 at byte 3"):
        file_settings("server.yml", b"a: \xff")
    assert file_settings("server.yml", b"\xef\xbb\xbfa: 1")[0].name == "a"
    assert file_settings("server.properties", b"a=\xe9")[0].text == "é"


@pytest.mark.parametrize("listener", ["localhost", "127.0.0.1:http", "127.0.0.1:70000"])
def test_the_admin_listener_is_an_address_or_nothing(listener: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        loaded(f"barnabas.admin.listener={listener}")
    assert loaded("barnabas.admin.listener=").config.admin_listener is None
    assert loaded("barnabas.admin.listener=[::1]:0").config.admin_listener == ("::1", 0)


def test_security_that_cannot_be_given_is_not_promised() -> None:
    with pytest.raises(ConfigError, match="listener SASL_SSL asks for TLS and has no key"):
        loaded(
            "listeners=SASL_SSL://:9092,CONTROLLER://:9093\nlistener.security.protocol.map="
            "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=SASL_SSL"
        )
    broker_alone = (
        "process.roles=broker\nlisteners=PLAINTEXT://:9092\ncontroller.listener.names=CONTROLLER,SPARE\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:%s,SPARE:SSL\n"
    )
    for protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
        with pytest.raises(
            ConfigError, match=r"sasl\.mechanism\.controller\.protocol=GSSAPI: .*not served yet"
        ):
            loaded(broker_alone % protocol)
    assert loaded(broker_alone % "PLAINTEXT").config.controller_listener_names[0] == "CONTROLLER"
    with pytest.raises(ConfigError, match=r"AclAuthorizer is not served here.*name org\.apache\.kafka"):
        loaded("authorizer.class.name=kafka.security.authorizer.AclAuthorizer")
    with pytest.raises(ConfigError, match=r"super\.users: admin is no principal; write TYPE:NAME"):
        loaded("super.users=User:root;admin")
