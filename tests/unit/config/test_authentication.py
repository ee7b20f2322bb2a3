"""What the configs say of SASL, and what of it stops the start; JAAS entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.authentication import controller_login, inter_broker_login, sasl_listener
from config.broker_config import BrokerConfig
from config.dynamic import validate_broker_change
from config.errors import ConfigError
from config.jaas import parse_jaas
from config.loading import dynamic_warnings, layered, load
from config.properties import read_properties

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BASE = f"""
process.roles=broker,controller
node.id=1
listeners=INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
listener.security.protocol.map=INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=INSIDE
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
sasl.mechanism.controller.protocol=PLAIN
listener.name.inside.scram-sha-512.sasl.jaas.config={SCRAM_MODULE} required username="node" password="s3cr3t";
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={PLAIN_MODULE} required username="c" password="p" user_c="p";
"""
ENABLED = "sasl.enabled.mechanisms"
OUTSIDE = "listener.name.outside"
INSIDE_JAAS = "listener.name.inside.scram-sha-512.sasl.jaas.config"


def loaded(more: str = "") -> BrokerConfig:
    return load(layered(read_properties(BASE + more, "server.properties"))).config


def test_each_listener_has_its_own_mechanisms_users_and_sessions() -> None:
    config = loaded(
        "listener.name.outside.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n"
        f'listener.name.outside.plain.sasl.jaas.config={PLAIN_MODULE} required user_alice="a" user_bob="b";\n'
        "connections.max.reauth.ms=9000\n"
        "listener.name.outside.plain.connections.max.reauth.ms=5000\n"
    )
    outside = sasl_listener(config, "OUTSIDE")
    assert outside.mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert dict(outside.plain_users) == {"alice": "a", "bob": "b"}
    assert dict(outside.max_reauth_ms) == {"PLAIN": 5000, "SCRAM-SHA-256": 9000}
    assert sasl_listener(config, "INSIDE").mechanisms == ("SCRAM-SHA-512",)


def test_the_node_logs_in_by_the_entry_of_the_listener_that_it_goes_to() -> None:
    config = loaded()
    broker, controller = inter_broker_login(config), controller_login(config)
    assert broker is not None
    assert controller is not None
    assert (broker.mechanism, broker.username, broker.password) == ("SCRAM-SHA-512", "node", "s3cr3t")
    assert (controller.mechanism, controller.username, controller.password) == ("PLAIN", "c", "p")
    assert "s3cr3t" not in repr(broker)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            f"{OUTSIDE}.{ENABLED}=GSSAPI",
            f"listener OUTSIDE: {ENABLED} names GSSAPI, which is not served yet; served are PLAIN, SCRAM-",
        ),
        (
            f"{OUTSIDE}.{ENABLED}=PLAIN",
            f"listener OUTSIDE offers PLAIN and has no users for it: set {OUTSIDE}.plain.sasl.jaas.config=",
        ),
        (f"{OUTSIDE}.{ENABLED}=", f"listener OUTSIDE: {ENABLED} is empty"),
        (
            "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol=OAUTHBEARER: this mechanism is not served yet",
        ),
        (
            "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol is SCRAM-SHA-256, and this node has no name and password",
        ),
        (
            f"listener.name.inside.{ENABLED}=SCRAM-SHA-256",
            f"sasl.mechanism.inter.broker.protocol must be included in {ENABLED} when SASL is used for inter",
        ),
        (
            "listener.name.controller.plain.sasl.server.callback.handler.class=com.example.Ldap",
            "listener CONTROLLER: sasl.server.callback.handler.class names a Java class for PLAIN",
        ),
        (
            f'{INSIDE_JAAS}={PLAIN_MODULE} required username="s3cr3t";',
            f"{INSIDE_JAAS}: the login module of SCRAM-SHA-512 is",
        ),
        (f"{INSIDE_JAAS}={SCRAM_MODULE} required tokenauth=true;", f"{INSIDE_JAAS}: tokenauth is set"),
        (
            f'{INSIDE_JAAS}={SCRAM_MODULE} required password="s3cr3t',
            f"{INSIDE_JAAS}: the quoted word that begins at character",
        ),
    ],
)
def test_what_cannot_work_stops_the_start_and_tells_no_secret(line: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(line)
    assert str(refused.value).startswith(sentence)
    assert "s3cr3t" not in str(refused.value)


def test_users_and_mechanisms_of_one_listener_change_while_it_is_open() -> None:
    config = loaded()
    changed = {
        f"{OUTSIDE}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_eve="eves";',
        f"{OUTSIDE}.{ENABLED}": "PLAIN",
    }
    wanted = validate_broker_change(changed, config, per_broker=True)
    assert dict(sasl_listener(wanted, "OUTSIDE").plain_users) == {"eve": "eves"}
    assert sasl_listener(wanted, "OUTSIDE").mechanisms == ("PLAIN",)
    assert sasl_listener(wanted, "INSIDE") == sasl_listener(config, "INSIDE")


def test_mechanisms_and_users_change_for_all_listeners_without_their_own_ones() -> None:
    users = f'{PLAIN_MODULE} required user_eve="eves";'
    config = loaded(f"{OUTSIDE}.{ENABLED}=PLAIN\nsasl.jaas.config={users}\n")
    changed = {ENABLED: "SCRAM-SHA-512,PLAIN", "sasl.jaas.config": users.replace("eve", "bob")}
    wanted = validate_broker_change(changed, config, per_broker=True)
    assert dict(sasl_listener(wanted, "OUTSIDE").plain_users) == {"bob": "bobs"}
    assert sasl_listener(wanted, "INSIDE").mechanisms == ("SCRAM-SHA-512", "PLAIN")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({ENABLED: "GSSAPI"}, "sasl.enabled.mechanisms names GSSAPI, which is not served yet"),
        ({ENABLED: "PLAIN"}, "offers PLAIN and has no users for it"),
        ({"sasl.jaas.config": "s3cr3t"}, "sasl.jaas.config: "),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "sasl.mechanism.inter.broker.protocol=PLAIN: this broker logs in to others as its file says; set",
        ),
    ],
)
def test_what_cannot_work_is_refused_while_the_broker_runs(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_broker_change(settings, loaded(), per_broker=True)
    assert sentence in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_a_stored_mechanism_of_the_login_is_in_nobody_s_way() -> None:
    stored = {"sasl.mechanism.inter.broker.protocol": "PLAIN"}
    config = loaded().with_dynamic(stored, {})
    assert config.refused == ("sasl.mechanism.inter.broker.protocol cannot be changed while the broker runs",)
    wanted = validate_broker_change(stored | {"log.retention.ms": "5"}, config, per_broker=True)
    assert wanted.text("sasl.mechanism.inter.broker.protocol") == "SCRAM-SHA-512"


def test_a_listener_that_is_added_has_sessions_that_end() -> None:
    added = {"listener.name.added.scram-sha-512.connections.max.reauth.ms": "7000"}
    config = loaded().with_dynamic(added, {})
    assert (config.refused, sasl_listener(config, "ADDED").max_reauth_ms["SCRAM-SHA-512"]) == ((), 7000)


def test_what_only_the_file_changes_is_said() -> None:
    config = loaded(f"{INSIDE_JAAS.replace('scram-sha-512', 'scram-sha-256')}={SCRAM_MODULE} required;\n")
    stored = {"super.users": "User:a", "allow.everyone.if.no.acl.found": "true"}
    (warning,) = dynamic_warnings(config, config.with_dynamic(stored, {}))
    assert warning == (
        "configs that are set but have no effect here; taken from the file, at the start: "
        "allow.everyone.if.no.acl.found, super.users"
    )


def test_a_login_that_only_the_file_changes_is_said() -> None:
    lines = [line for line in BASE.splitlines() if not line.startswith("listener.name.inside.scram")]
    jaas = f'sasl.jaas.config={SCRAM_MODULE} required username="node" password="one";'
    text = "\n".join([*lines, jaas])
    config = load(layered(read_properties(text, "server.properties"))).config
    changed = config.with_dynamic({"sasl.jaas.config": jaas.partition("=")[2].replace("one", "two")}, {})
    (warning,) = dynamic_warnings(config, changed)
    assert warning.startswith("this broker goes on logging in to others by the name and password in its file")
    assert dynamic_warnings(changed, changed) == []
    assert dynamic_warnings(changed, config) == [], "the file's again"


# JAAS entries

ENTRY = "the.Module required"


def test_an_entry_with_all_that_java_reads() -> None:
    text = """
        the.Module /* of ours */ REQUIRED // which
        user_a="b=\\"c\\";d" user_b='"' c=d
        e="\\101\\t\\\\" ;
    """
    entry = parse_jaas("sasl.jaas.config", text)
    assert entry.login_module == "the.Module"
    assert dict(entry.options) == {"user_a": 'b="c";d', "user_b": '"', "c": "d", "e": "A\t\\"}
    assert "b=" not in repr(entry)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "JAAS config property contains no login module, should be 1 module"),
        (f"{ENTRY}; {ENTRY};", "JAAS config property contains 2 login modules, should be 1 module"),
        ("the.Module", "Login module control flag not specified in JAAS config"),
        ("the.Module s3cr3t;", "Login module control flag not specified in JAAS config"),
        ("= required;", "Login module not specified in JAAS config"),
        (f"{ENTRY} a=s3cr3t", "JAAS config entry not terminated by semi-colon"),
        (f"{ENTRY} s3cr3t;", "Value not specified for option 1 in JAAS config"),
        (f"{ENTRY} a=b s3cr3t=;", "Value not specified for option 2 in JAAS config"),
        (f'{ENTRY} a="s3cr3t;', "the quoted word that begins at character 23 has no end"),
        (f'{ENTRY} a="s3cr3t\n";', "the quoted word that begins at character 23 has no end"),
        (f"{ENTRY} /* s3cr3t", "the comment that begins at character 21 has no end"),
    ],
)
def test_what_is_no_entry(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_jaas("the.config", text)
    assert str(refused.value).startswith(f"the.config: {sentence}")
    assert "s3cr3t" not in str(refused.value)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def quoted(word: str, mark: str) -> str:
    for plain, escaped in (("\\", "\\\\"), (mark, "\\" + mark), ("\n", "\\n"), ("\r", "\\r")):
        word = word.replace(plain, escaped)
    return f"{mark}{word}{mark}"


@given(st.dictionaries(WORDS, WORDS, max_size=5), st.sampled_from("\"'"))
def test_any_text_survives_in_quotes(options: dict[str, str], mark: str) -> None:
    written = " ".join(f"{quoted(key, mark)}={quoted(value, mark)}" for key, value in options.items())
    assert dict(parse_jaas("x", f"{ENTRY} {written};").options) == options


@given(st.text(st.sampled_from("ab=;\"'/\\* \n7"), max_size=40))
def test_any_text_is_an_entry_or_a_clear_error(text: str) -> None:
    complaint = "the.config: "
    try:
        parse_jaas("the.config", f"{ENTRY} {text}")
    except ConfigError as refused:
        complaint = str(refused)
    assert complaint.startswith("the.config: ")
