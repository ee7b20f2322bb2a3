"""Every config of every kind, as DescribeConfigs shows it, for brokers that were given the same file.

``python -m tests.support.questions.config_walk`` starts Apache Kafka 4.3.1 with each file of `FILES`, makes
the changes of `CHANGES`, describes all resources with their synonyms and writes
tests/interop/genuine_config_rows.jsonl, one line for a file and resource. What a run brings with it
(addresses, directories) is replaced by a word; of the documentation only its presence counts.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.clients.wire_client import WireClient
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.questions.config_steps import BROKER, CLIENT_METRICS, GROUP, TOPIC, change, put

CORPUS: Final = Path(__file__).resolve().parents[2] / "interop" / "genuine_config_rows.jsonl"

OURS: Final = "barnabas."

BASE: Final = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
)
"""What a start of ours without a file sets too."""

MANY: Final = MappingProxyType(
    {
        "log.retention.minutes": "600",
        "log.roll.hours": "24",
        "log.roll.jitter.ms": "1000",
        "log.segment.bytes": "2097152",
        "log.flush.scheduler.interval.ms": "7000000",
        "log.cleanup.policy": "compact,delete,compact",
        "log.message.timestamp.type": "LogAppendTime",
        "log.cleaner.min.cleanable.ratio": "0.25 ",
        "log.cleaner.io.max.bytes.per.second": "1e7",
        "message.max.bytes": "2000000",
        "min.insync.replicas": "1",
        "compression.type": "zstd",
        "compression.zstd.level": "-5",
        "unclean.leader.election.enable": "TRUE",
        "num.partitions": "3",
        "auto.create.topics.enable": "false",
        "max.connections": "500",
        "max.connections.per.ip.overrides": "127.0.0.7:4",
        "listener.name.plaintext.max.connections": "400",
        "listener.name.plaintext.ssl.keystore.password": "hush",
        "listener.name.plaintext.plain.sasl.jaas.config": "hush",
        "ssl.keystore.password": "hush",
        "ssl.cipher.suites": "",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.kerberos.ticket.renew.window.factor": "0.75",
        "broker.rack": "here",
        "group.consumer.session.timeout.ms": "46000",
        "group.share.record.lock.duration.ms": "20000",
        "group.streams.num.standby.replicas": "1",
        "num.io.threads": "4",
        "metric.reporters": "",
        "internal.metadata.max.batch.size.in.bytes": "8000000",
        "my.plugin.setting": "anything",
        "my.plugin.password": "hush",
        "quota.window.num": "7",
        "producer.id.expiration.ms": "100000",
        "queued.max.requests": "100",
    }
)

FILES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "bare": {},
        "many": MANY,
        "synonyms": {
            "log.retention.ms": "-1",
            "log.retention.minutes": "5",
            "log.retention.hours": "3",
            "log.roll.ms": "9000000",
            "log.roll.hours": "1",
            "log.roll.jitter.hours": "1",
            "log.flush.interval.ms": "77000",
            "log.flush.scheduler.interval.ms": "88000",
        },
    }
)

CHANGES: Final = (
    (TOPIC, "set", [put("retention.ms", "5000"), put("cleanup.policy", "compact"), put("flush.ms", "9"),
                    put("internal.segment.bytes", "70000"), put("min.insync.replicas", "1"),
                    put("leader.replication.throttled.replicas", "0:1,1:1")]),
    (BROKER, "", [put("log.retention.ms", "7200000"), put("log.cleanup.policy", "delete"),
                  put("max.connections", "600"), put("compression.type", "lz4"),
                  put("another.plugin.setting", "x"), put("log.flush.interval.ms", "60000"),
                  put("group.consumer.assignment.interval.ms", "900"),
                  put("listener.name.plaintext.max.connection.creation.rate", "900")]),
    (BROKER, "1", [put("message.max.bytes", "3000000"), put("compression.type", "gzip"),
                   put("compression.gzip.level", "4"), put("log.roll.ms", "8000000"),
                   put("listener.name.inner.ssl.keystore.location", "/nowhere"),
                   put("listener.name.inner.ssl.key.password", "hush"),
                   put("leader.replication.throttled.rate", "1000000"),
                   put("third.plugin.setting", "y"), put("num.network.threads", "4")]),
    (GROUP, "g", [put("consumer.session.timeout.ms", "47000"), put("share.auto.offset.reset", "earliest"),
                  put("streams.num.standby.replicas", "2")]),
    (CLIENT_METRICS, "m", [put("interval.ms", "60000"), put("match", "client_id=x,client_id=x")]),
)  # fmt: skip

RESOURCES: Final = (
    (BROKER, "1"),
    (BROKER, ""),
    (TOPIC, "set"),
    (TOPIC, "unset"),
    (GROUP, "g"),
    (GROUP, "h"),
    (CLIENT_METRICS, "m"),
    (CLIENT_METRICS, "n"),
)

ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")

Rows = dict[str, list[Any]]


def key_of(file: str, changed: bool, kind: int, name: str) -> str:
    """One described resource, in words: ``many, changed, 4 1``."""
    return f"{file}, {'changed' if changed else 'untouched'}, {kind} {name}".rstrip()


def walk(broker: str, file: str, data: Path, *, wait_seconds: float = 0) -> Rows:
    """All rows of all resources, before the changes and after them."""
    with WireClient(broker) as client:
        request = CreateTopicsRequest(
            [CreateTopicsRequest.CreatableTopic(name, 1, 1) for name in ("set", "unset")]
        )
        client.ask(request, 7)
        _await(client, (TOPIC, "unset"), lambda rows: bool(rows))
        found = {key_of(file, False, *each): described(client, *each, data) for each in RESOURCES}
        for kind, name, changes in CHANGES:
            asked: IncrementalAlterConfigsRequest = change((kind, name, changes))
            answer = client.ask_for(IncrementalAlterConfigsResponse, asked, 1)
            if any(each.error_code for each in answer.responses):
                raise RuntimeError(f"{kind} {name}: {answer.responses}")
        _await(client, (CLIENT_METRICS, "m"), lambda rows: any(row[2] == 7 for row in rows))
        _await(client, (BROKER, "1"), lambda rows: any("listener.name.inner" in row[0] for row in rows))
        time.sleep(wait_seconds)
        return found | {key_of(file, True, *each): described(client, *each, data) for each in RESOURCES}


def _await(client: WireClient, resource: tuple[int, str], there: Any) -> None:
    deadline = time.monotonic() + 90
    while not there(described(client, *resource, Path("/nowhere"))):
        if time.monotonic() > deadline:
            raise TimeoutError(str(resource))
        time.sleep(0.02)


def described(client: WireClient, kind: int, name: str, data: Path) -> list[Any]:
    """(name, value, source, read-only, sensitive, type, synonyms, documented) by name; none of ours."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, None)
    request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
    (result,) = client.ask_for(DescribeConfigsResponse, request, 4).results
    rows = [
        [
            row.name,
            plain(row.value, data),
            row.config_source,
            row.read_only,
            row.is_sensitive,
            row.config_type,
            [[each.name, plain(each.value, data), each.source] for each in row.synonyms],
            bool(row.documentation),
        ]
        for row in result.configs
        if not row.name.startswith(OURS)
    ]
    return sorted(rows)


def plain(value: str | None, data: Path) -> str | None:
    return value if value is None else ADDRESS.sub("<address>", value).replace(str(data), "<data>")


def genuine(file: str, folder: Path) -> Rows:
    """Apache Kafka's rows for one file."""
    kafka = GenuineKafka(folder / file)
    addresses = ("listeners", "advertised.listeners", "controller.quorum.bootstrap.servers", "log.dirs")
    own = {name: kafka.properties[name] for name in addresses}
    kafka.properties = {**BASE, **own, **FILES[file]}
    kafka.features = NO_FEATURES
    with kafka:
        return walk(kafka.bootstrap_servers, file, kafka.data, wait_seconds=1.5)


def recorded() -> Rows:
    return dict(map(json.loads, CORPUS.read_text().splitlines()))


def record() -> None:
    with tempfile.TemporaryDirectory() as folder, open(CORPUS, "w") as corpus:
        for file in FILES:
            rows = genuine(file, Path(folder))
            corpus.writelines(json.dumps(each) + "\n" for each in rows.items())
            print(file, sum(map(len, rows.values())), "rows")


if __name__ == "__main__":
    record()
