"""The list of keys that only Kafka's plug-ins read, against the texts in the classes of Kafka's own jars."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from typing import Final

import pytest

from config.catalogue import BROKER, CLIENT_METRICS, GROUP, PLUGINS, TOPIC
from tests.support.genuine.kafka_jars import KAFKA_VERSION, kafka_jars

JARS: Final = (
    "kafka-clients kafka-coordinator-common kafka-group-coordinator kafka-group-coordinator-api "
    "kafka-metadata kafka-raft kafka-server kafka-server-common kafka-share-coordinator kafka-storage "
    "kafka-storage-api kafka-transaction-coordinator kafka_2.13"
)
"""What a broker is made of."""

BEHIND: Final = "rlmm.config."
SET_BY_KAFKA: Final = (
    "remote.log.metadata.common.client.bootstrap.servers",
    "remote.log.metadata.common.client.security.protocol",
)

NO_KEYS: Final = re.compile(
    r"""
      (kafka|org\.apache\.kafka)(\.(admin|authorizer|client|cluster|consumer|controller|coordinator|log|network|
          node|producer|raft|remote|request|server|storage|transaction|utils|group|internals|id|logger))*
    | (org\.apache\.kafka|java|javax|sun|os)\..*                  # properties of the JVM, and packages
    | state\.change\.logger | bytes\.committed | commit\.latency
    | .*\.version(\.\d)?                                          # features
    | (bootstrap\.checkpoint|meta\.properties|server\.properties|partition\.metadata)(\.tmp)?
    | (tools-)?log4j2\.yaml
    | (cluster|directory)\.id                                     # in meta.properties
    | ((key|value)\.)?(de)?serializer(\.encoding)?
    | default\.list\.(key|value)\.serde\.(inner|type)
    | (auto\.offset\.reset|bootstrap\.(servers|controllers)|client\.(id|rack)|enable\.auto\.commit
       |enable\.idempotence|exclude\.internal\.topics|group\.(id|instance\.id)|transactional\.id
       |sasl\.mechanism)                                          # of clients
    | allowed\.paths | allowlist\.pattern              # behind config.providers.<name>.param.
    | num\.standby\.replicas                          # of a streams group, in its own records
    | message\.downconversion\.enable | (\w+\.)*assignor\.offload\.enable     # constants that nobody reads
    | listener\.name | (sasl|metrics\.jmx|log|log\.cleaner|controller\.quorum)\.   # what names begin with
    | (flush|index|min|retention|roll|segment)\.[a-z.]+           # what names end with
    """,
    re.VERBOSE,
)
"""Texts of Kafka's that look like keys of a broker's file and are none."""


def texts_of_class(data: bytes) -> Iterator[str]:
    """All string constants of a compiled class (JVM specification, section 4.4)."""
    (count,) = struct.unpack_from(">H", data, 8)
    sizes = dict(
        zip(
            (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 18, 19, 20),
            b"\4\4\10\10\2\2\4\4\4\4\3\2\4\4\2\2",
            strict=True,
        )
    )
    utf8: dict[int, bytes] = {}
    strings: list[int] = []
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            utf8[number] = data[at + 3 : at + 3 + size]
            at += 3 + size
        else:
            if tag == 8:
                strings.append(struct.unpack_from(">H", data, at + 1)[0])
            at += 1 + sizes[tag]
        number += 2 if tag in (5, 6) else 1
    return (utf8[each].decode(errors="replace") for each in strings)


def kafkas_texts() -> Iterator[tuple[str, str]]:
    """(text, class) of everything that a broker may load and that looks like a key."""
    for jar in JARS.split():
        with zipfile.ZipFile(kafka_jars() / f"{jar}-{KAFKA_VERSION}.jar") as archive:
            for name in archive.namelist():
                of_clients = jar == "kafka-clients" and not name.startswith("org/apache/kafka/common/")
                if not name.endswith(".class") or "shaded" in name or of_clients:
                    continue
                for text in texts_of_class(archive.read(name)):
                    if re.fullmatch(r"[a-z][a-z0-9]*(?:[.-][a-z0-9]+)*\.[a-z0-9.]*", text):
                        yield text, name


@pytest.mark.java
def test_the_list_is_whole_and_holds_nothing_else() -> None:
    defined = {*BROKER, *TOPIC, *GROUP, *CLIENT_METRICS}
    listed = {name.removeprefix(BEHIND) for name in PLUGINS} | {*PLUGINS}
    found = {(text, name) for text, name in kafkas_texts() if text not in defined}
    assert len(found) > 100, "the jars have been read"
    missing = sorted(
        f"{text} in {name}"
        for text, name in found
        if text not in listed and text not in SET_BY_KAFKA and not NO_KEYS.fullmatch(text)
    )
    assert missing == [], "who reads these? config/definitions/plugins.py says so, or this test why not"
    texts = {text for text, _ in found}
    read_by_nobody = {
        name for name in PLUGINS if name not in texts and name.removeprefix(BEHIND) not in texts
    }
    assert read_by_nobody == {"config.providers."}, "there the provider's name comes in between"
