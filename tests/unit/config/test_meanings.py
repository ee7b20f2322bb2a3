"""What is said of keys that stand in no definition: of plug-ins, of one listener, of nobody."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import pytest

from broker.cli.config_check import WOULD_START, check_file
from config.effects import Effect
from config.loading import file_settings, layered, load
from config.meanings import Meaning, meaning_of

FILE: Final = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://:9092,INTERNAL://:9094,CONTROLLER://:9093
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters=1@localhost:9093
"""

HONOURED, NOT_USED_YET, IGNORED = Effect.HONOURED, Effect.NOT_USED_YET, Effect.IGNORED
AUTHORIZER: Final = "read by Kafka's StandardAuthorizer"
SEGMENT_LIST: Final = "read by Kafka's TopicBasedRemoteLogMetadataManager"
NO_REPORTERS: Final = "metrics are read at /metrics of the admin listener, not pushed by reporters"
PREFIX: Final = "remote.log.metadata.manager.impl.prefix"


def meaning(line: str, others: str = "") -> Meaning:
    """Of one `key=value` in a file with some others."""
    settings = layered(file_settings("server.properties", f"{FILE}{others}\n{line}\n".encode()))
    return meaning_of(line.partition("=")[0], settings)


SHOWN: Final = (
    ("super.users=User:a;User:b", HONOURED, AUTHORIZER),
    ("allow.everyone.if.no.acl.found=true", HONOURED, AUTHORIZER),
    ("metrics.jmx.exclude=.*", IGNORED, f"read by Kafka's JmxReporter; {NO_REPORTERS}"),
    ("kafka.csv.metrics.dir=x", IGNORED, f"read by Kafka's KafkaCSVMetricsReporter; {NO_REPORTERS}"),
    ("rlmm.config.remote.log.metadata.topic.num.partitions=5", NOT_USED_YET, SEGMENT_LIST),
    (
        "sasl.oauthbearer.header.urlencode=true",
        NOT_USED_YET,
        "read by Kafka's ClientCredentialsJwtRetriever",
    ),
    ("listener.name.internal.max.connections=5", HONOURED, ""),
    ("listener.name.internal.ssl.keystore.type=PEM", HONOURED, ""),
    ("listener.name.internal.scram-sha-256.connections.max.reauth.ms=5", HONOURED, ""),
    ("listener.name.internal.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=x", NOT_USED_YET, ""),
)
HIDDEN: Final = (
    ("metrics.context.owner=me", IGNORED, f"read by the metrics reporters; {NO_REPORTERS}"),
    ("config.providers.vault.param.token=x", HONOURED, "read by the config provider of that name"),
    ("rlmm.config.remote.log.metadata.common.client.sasl.jaas.config=x", NOT_USED_YET, SEGMENT_LIST),
    ("rlmm.config.else=x", NOT_USED_YET, "read by the remote log metadata manager"),
    (
        "rsm.config.s3.secret=x",
        IGNORED,
        "read by the remote storage manager; it is for a Java class, and there is no JVM to load it",
    ),
    ("listener.name.controller.ssl.key.password=x", HONOURED, ""),
    ("listener.name.internal.plain.sasl.jaas.config=x", HONOURED, ""),
    (
        "listener.name.internal.sasl.mechanism.inter.broker.protocol=PLAIN",
        IGNORED,
        "Kafka does not read sasl.mechanism.inter.broker.protocol for one listener",
    ),
    (
        "listener.name.internal.num.partitions=5",
        IGNORED,
        "Kafka does not read num.partitions for one listener",
    ),
    (
        "listener.name.internal.plain.ssl.protocol=x",
        IGNORED,
        "Kafka does not read ssl.protocol for one mechanism of a listener",
    ),
    (
        "listener.name.INTERNAL.max.connections=5",
        IGNORED,
        "the listener's name is to be written internal",
    ),
    ("listener.name.external.max.connections=5", IGNORED, "there is no listener EXTERNAL"),
    (
        "listener.name.internal.PLAIN.sasl.jaas.config=x",
        IGNORED,
        "the mechanism is to be written plain",
    ),
    ("listener.name.internal.my.own=x", None, ""),
    ("zookeeper.connect=host", None, ""),
    ("remote.log.metadata.topic.num.partitions=5", None, "Kafka reads it behind rlmm.config. only"),
    (
        "plain.sasl.jaas.config=x",
        None,
        "Kafka reads it behind listener.name.<listener>.plain. only",
    ),
)
"""Their values may be secrets."""


@pytest.mark.parametrize(("line", "effect", "note"), SHOWN + HIDDEN)
def test_each_key_has_its_words(line: str, effect: Effect | None, note: str) -> None:
    assert meaning(line) == Meaning(effect, note, is_secret=(line, effect, note) in HIDDEN)


def test_a_prefix_that_the_file_names_is_the_one_that_counts() -> None:
    other = f"{PREFIX}=mine."
    assert meaning("mine.remote.log.metadata.consume.wait.ms=5", other) == Meaning(NOT_USED_YET, SEGMENT_LIST)
    assert meaning("rlmm.config.remote.log.metadata.consume.wait.ms=5", other) == Meaning(
        None, f"{PREFIX} says that such keys begin with mine.", is_secret=True
    )


def test_a_key_may_be_for_a_plug_in_that_does_not_come_with_kafka() -> None:
    reporter = "com.linkedin.kafka.cruisecontrol.metricsreporter.CruiseControlMetricsReporter"
    line = "cruise.control.metrics.reporter.bootstrap.servers=x"
    assert meaning(
        line, f"metric.reporters=org.apache.kafka.common.metrics.JmxReporter,{reporter}"
    ) == Meaning(None, f"perhaps for {reporter} (metric.reporters), which is not loaded here", is_secret=True)
    assert meaning("ours.prefix=x", "create.topic.policy.class.name=ours:Policy").note == (
        "handed to the class that create.topic.policy.class.name names"
    )


def test_the_check_shows_it_and_keeps_secrets(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        FILE + "super.users=User:root\nrsm.config.s3.secret=geheim\nplain.sasl.jaas.config=geheim\n"
    )
    out = io.StringIO()
    assert check_file(str(path), out) == WOULD_START
    told = out.getvalue()
    assert f"super.users = User:root  ({AUTHORIZER})\n" in told
    assert "rsm.config.s3.secret = [hidden]  (read by the remote storage manager; " in told
    assert f"plain.sasl.jaas.config  ({path} line 10; Kafka reads it behind " in told
    assert "geheim" not in told


def test_a_start_calls_only_those_unknown_that_nobody_reads() -> None:
    text = FILE + "rlmm.config.x=1\nmetrics.jmx.include=x\nzookeeper.connect=host\n"
    unknown, without_effect = load(layered(file_settings("s.properties", text.encode()))).warnings
    assert unknown == "unknown configs, without effect: zookeeper.connect (s.properties line 10)"
    assert without_effect == (
        "configs that are set but have no effect here; not used yet: rlmm.config.x; "
        "ignored: metrics.jmx.include"
    )
    policies = "ours.prefix=x\ncreate.topic.policy.class.name=ours:Policy\n"
    (unknown,) = load(layered(file_settings("s.properties", (FILE + policies).encode()))).warnings
    assert unknown == "unknown configs, read by policies if at all: ours.prefix (s.properties line 8)"
