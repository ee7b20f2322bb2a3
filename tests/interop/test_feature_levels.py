"""kafka-features and kafka-cluster against us; a data directory of Apache Kafka with levels that we lack."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from controller.metadata.snapshots import BOOTSTRAP_FILE, decode_snapshot
from tests.conftest import AnyBroker
from tests.support.brokers.against import AGAINST_KAFKA, barnabas_only
from tests.support.brokers.broker_process import ROOT, BarnabasProcess
from tests.support.genuine.genuine_kafka import NO_FEATURES, GenuineKafka
from tests.support.genuine.kafka_tools import ToolResult
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java

FEATURES = ("share.version", "streams.version")
LEVELS = {
    "kraft.version": "1",
    "metadata.version": "4.3-IV0",
    "eligible.leader.replicas.version": "1",
    "group.version": "1",
    "transaction.version": "2",
}
FAULT = "The update failed for all features since the following feature had an error: "


@pytest.fixture
def at(broker: AnyBroker) -> tuple[str, str]:
    return ("--bootstrap-server", broker.bootstrap_servers)


def features(tools: ToolServer, at: tuple[str, str], *words: str) -> ToolResult:
    return tools.run("kafka-features", *at, *words)


def finalized(tools: ToolServer, at: tuple[str, str]) -> dict[str, str]:
    told = features(tools, at, "describe")
    assert told.code == 0, told.err
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", told.out))
    return {name: level for name, level in levels.items() if level != "0"}


def test_what_is_there_may_be_asked_for_again(tool_server: ToolServer, at: tuple[str, str]) -> None:
    done = features(tool_server, at, "upgrade", "--feature", "metadata.version=30")
    assert (done.code, done.out) == (0, "metadata.version was upgraded to 30.\n")
    done = features(tool_server, at, "upgrade", "--feature", "kraft.version=1", "--dry-run")
    assert (done.code, done.out) == (0, "kraft.version can be upgraded to 1.\n")
    done = features(tool_server, at, "disable", "--feature", "share.version")
    assert (done.code, done.out) == (0, "share.version was disabled.\n")
    assert finalized(tool_server, at) == LEVELS


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (
            ("upgrade", "--feature", "foo.version=1"),
            (
                f"Could not upgrade foo.version to 1. {FAULT}Invalid update version 1 for "
                f"feature foo.version. Local "
                "controller 1 does not support this feature."
            ),
        ),
        (
            ("upgrade", "--feature", "metadata.version=31"),
            (
                f"Could not upgrade metadata.version to 31. {FAULT}Invalid update version 31 for feature "
                "metadata.version. Local controller 1 only supports versions 7-30"
            ),
        ),
        (
            ("downgrade", "--feature", "metadata.version=29", "--dry-run"),
            (
                f"Can not downgrade metadata.version to 29. {FAULT}Unsupported "
                f"metadata.version downgrade from 30 to "
                "29. Refusing to perform the requested downgrade because it might delete "
                "metadata information."
            ),
        ),
        (
            ("downgrade", "--feature", "metadata.version=29", "--unsafe"),
            (
                f"Could not downgrade metadata.version to 29. {FAULT}Unsupported "
                f"metadata.version downgrade from 30 "
                "to 29. Unsafe metadata downgrade is not supported in this version."
            ),
        ),
        (
            ("disable", "--feature", "kraft.version"),
            (
                f"Could not disable kraft.version. {FAULT}Invalid update version 0 for "
                f"feature kraft.version. Can't "
                "downgrade the version of this feature."
            ),
        ),
        (
            ("disable", "--feature", "metadata.version"),
            (
                f"Could not disable metadata.version. {FAULT}Invalid update version 0 for "
                f"feature metadata.version. "
                "Local controller 1 only supports versions 7-30"
            ),
        ),
    ],
)
def test_a_refused_level(
    tool_server: ToolServer, at: tuple[str, str], words: tuple[str, ...], out: str
) -> None:
    refused = features(tool_server, at, *words)
    assert (refused.code, refused.out) == (1, out + "\n")
    assert "1 out of 1 operation(s) failed." in refused.err


def test_mapping_and_dependencies(tool_server: ToolServer, at: tuple[str, str]) -> None:
    mapping = features(tool_server, at, "version-mapping", "--release-version", "4.2").lines
    assert mapping[:2] == ["metadata.version=29 (4.2)", "kraft.version=1"]
    told = features(tool_server, at, "feature-dependencies", "--feature", "metadata.version=30")
    assert told.out == "metadata.version=30 (4.3-IV0) has no dependencies.\n"


def test_the_controllers_tell_and_decide_the_same(broker: AnyBroker, tool_server: ToolServer) -> None:
    controllers = ("--bootstrap-controller", broker.bootstrap_controllers)
    assert finalized(tool_server, controllers) == LEVELS
    done = features(tool_server, controllers, "upgrade", "--feature", "metadata.version=30")
    assert (done.code, done.out) == (0, "metadata.version was upgraded to 30.\n")


def test_a_broker_that_is_not_there_cannot_be_forgotten(tool_server: ToolServer, at: tuple[str, str]) -> None:
    refused = tool_server.run("kafka-cluster", "unregister", *at, "--id", "7")
    assert refused.code == 1
    assert "BrokerIdNotRegisteredException: Broker ID 7 is not currently registered" in refused.err
    listed = tool_server.run("kafka-cluster", "list-endpoints", *at, "--include-fenced-brokers").lines
    assert listed[1].split()[3:] == ["null", "unfenced", "broker"]


def test_transactions_go_down_and_up_again(tool_server: ToolServer, at: tuple[str, str]) -> None:
    for verb, level, words in (
        ("downgrade", "1", "downgraded to 1"),
        ("disable", "0", "disabled"),
        ("upgrade", "2", "upgraded to 2"),
    ):
        wish = "transaction.version" if verb == "disable" else f"transaction.version={level}"
        done = features(tool_server, at, verb, "--feature", wish)
        assert (done.code, done.out) == (0, f"transaction.version was {words}.\n")
        assert finalized(tool_server, at).get("transaction.version", "0") == level
    refused = features(tool_server, at, "upgrade", "--feature", "transaction.version=3")
    assert refused.out.endswith("Local controller 1 only supports versions 0-2\n")


@barnabas_only
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--feature", "transaction.version=1"),
        ("--feature", "transaction.version=0", "--feature", "group.version=0"),
        ("--release-version", "4.1"),
        ("--release-version", "4.0-IV2"),
        ("--release-version", "4.0-IV1"),
        ("--release-version", "3.9", "--feature", "transaction.version=2"),
    ],
    ids=" ".join,
)
def test_a_new_cluster_begins_with_the_levels_of_kafka_s_own_tool(
    words: tuple[str, ...], tool_server: ToolServer, tmp_path: Path
) -> None:
    theirs = GenuineKafka(tmp_path / "theirs")
    not_here = [word for feature in NO_FEATURES for word in ("--feature", feature)]
    given = ("-t", "bWVhc3VyZW9mYWxsdGhpbg", "--standalone", "-c")
    done = tool_server.run(
        "kafka-storage", "format", *given, str(theirs.write_properties()), *words, *not_here
    )
    assert done.code == 0, done
    ours = GenuineKafka(tmp_path / "ours")
    command = [sys.executable, "-m", "broker", "storage", "format", *given, str(ours.write_properties())]
    subprocess.run([*command, *words], check=True, timeout=120, cwd=ROOT, stdout=subprocess.DEVNULL)
    levels = [
        decode_snapshot((each.data / BOOTSTRAP_FILE).read_bytes(), BOOTSTRAP_FILE).records
        for each in (theirs, ours)
    ]
    assert levels[0] == levels[1]


@barnabas_only
def test_a_lower_level_is_served_raised_and_kept(tool_server: ToolServer, tmp_path: Path) -> None:
    broker = BarnabasProcess(tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={broker.data}\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
    )
    words = (
        "storage",
        "format",
        "-t",
        "bWVhc3VyZW9mYWxsdGhpbg",
        "-c",
        str(properties),
        "--release-version",
        "3.5",
    )
    done = subprocess.run(
        [*broker._program(), *words], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1].endswith("with metadata.version 3.5-IV2.")
    with broker.start():
        at = ("--bootstrap-server", broker.bootstrap_servers)
        assert tool_server.run("kafka-topics", *at, "--create", "--topic", "old").code == 0
        assert finalized(tool_server, at)["metadata.version"] == "3.5-IV2"
        done_ = features(tool_server, at, "upgrade", "--release-version", "4.3")
        assert done_.code == 1, "its other features are not here"
        done_ = features(tool_server, at, "upgrade", "--feature", "metadata.version=30")
        assert (done_.code, done_.out) == (0, "metadata.version was upgraded to 30.\n")
        assert tool_server.run("kafka-topics", *at, "--create", "--topic", "new").code == 0
    log = broker.data / "__cluster_metadata-0" / "00000000000000000000.log"
    dumped = tool_server.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log)).out
    registrations = [line for line in dumped.splitlines() if '"type":"REGISTER_BROKER_RECORD"' in line]
    assert ['"logDirs"' in line for line in registrations] == [False, True], "told again at the higher level"
    with broker.start():
        at = ("--bootstrap-server", broker.bootstrap_servers)
        assert finalized(tool_server, at)["metadata.version"] == "4.3-IV0"
        assert tool_server.run("kafka-topics", *at, "--list").out.split() == ["new", "old"]
    topics = [line for line in dumped.splitlines() if '"type":"PARTITION_RECORD"' in line]
    assert ['"version":0' in topics[0], '"version":2' in topics[-1]] == [True, True]


@barnabas_only
def test_a_directory_of_apache_kafka_with_more_features_is_refused_in_one_line_and_fits_without_them(
    tool_server: ToolServer, tmp_path: Path
) -> None:
    kafka = GenuineKafka(tmp_path / "data")
    kafka.format()
    refused = refused_start(kafka)
    assert refused.startswith("barnabas: This cluster needs another release: ")
    for name in FEATURES:
        assert f"{name} is finalized at level 1, " in refused
    at = ("--bootstrap-server", kafka.bootstrap_servers)
    switched_off = " ".join(f"--feature {name}" for name in FEATURES)
    assert refused.endswith(f": kafka-features.sh {' '.join(at)} disable {switched_off}")
    with kafka:
        assert tool_server.run("kafka-topics", *at, "--create", "--topic", "moved").code == 0
    assert refused_start(kafka) == refused, "nor when it has lived"
    with kafka:
        script, *words = refused.rpartition(": ")[2].split()
        done = tool_server.run(script.removesuffix(".sh"), *words)
        assert (done.code, done.out.count("was disabled")) == (0, len(FEATURES)), done.err
    ours = BarnabasProcess(kafka.data, {"node.id": "1"})
    ours.log_file = tmp_path / "ours.log"
    with ours.start():
        at = ("--bootstrap-server", ours.bootstrap_servers)
        assert "moved" in tool_server.run("kafka-topics", *at, "--list").out.split()
        assert finalized(tool_server, at) == LEVELS


def refused_start(kafka: GenuineKafka) -> str:
    """The line with which we refuse its directory, started with its own file."""
    command = [sys.executable, "-m", "broker", "start", str(kafka.write_properties())]
    done = subprocess.run(
        [*command, "--override", "barnabas.admin.listener="],
        capture_output=True, text=True, check=False, timeout=120, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("barnabas: ")]
    return line


def test_a_running_broker_that_is_forgotten_is_listed_no_more(
    tool_server: ToolServer, tmp_path: Path
) -> None:
    if AGAINST_KAFKA:
        pytest.skip("the tool does not end: it waits for a broker that Apache Kafka does not list any more")
    with BarnabasProcess(tmp_path / "data") as broker:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        told = tool_server.run("kafka-cluster", "unregister", *at, "--id", "1")
        assert (told.code, told.out) == (0, "Broker 1 is no longer registered.\n")
        broker.stop()
        broker.start_anywhere()
        at = ("--bootstrap-server", broker.bootstrap_servers)
        listed = tool_server.run("kafka-cluster", "list-endpoints", *at, "--include-fenced-brokers").lines
        assert listed[1].split()[0] == "1"
