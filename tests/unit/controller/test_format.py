"""What `storage format` writes and refuses."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path

import pytest

from broker.cli.storage import (
    StartRefused,
    format_directories,
    identify,
    show_info,
    wished_levels,
    wished_voters,
)
from broker.ports.files import RealFiles
from config.ports import Files
from controller.format import FormatRefused, Formatter, read_bootstrap_records
from controller.initial_voters import MalformedVoters, parse_initial_voters
from controller.metadata.image.features import FeaturesImage
from controller.metadata.log import SnapshotId
from controller.metadata.metadata_version import METADATA_VERSION_NAMES
from controller.metadata.snapshots import encode_snapshot, read_snapshot
from controller.metadata.supported_features import SUPPORTED_FEATURES, UnsupportedCluster, way_back
from controller.raft.snapshot_files import list_snapshots, snapshot_name
from protocol.metadata_log.cluster import FeatureLevelRecord
from storage.memory_files import MemoryFiles
from storage.meta_properties import read_meta_properties
from tests.support.rigs.controllers import (
    CLUSTER_ID,
    DATA,
    METADATA_LOG,
    ControllerFixture,
    SeededRandomSource,
    one_node_config,
)
from tests.support.rigs.hand_clock import HandClock


def format_(files: Files, cluster_id: str = CLUSTER_ID, **settings: str) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    ignore = settings.pop("ignore_formatted", "") == "yes"
    seed = int(settings.pop("seed", "1"))
    code = format_directories(
        one_node_config(**settings),
        cluster_id,
        files=files,
        clock=HandClock(),
        random_source=SeededRandomSource(seed),
        ignore_formatted=ignore,
        output=output,
        errors=errors,
    )
    return code, output.getvalue(), errors.getvalue()


def test_a_formatted_directory_has_identity_levels_and_a_first_voter() -> None:
    files = MemoryFiles()
    assert format_(files) == (
        0,
        "Formatting dynamic metadata voter directory /data with metadata.version 4.3-IV0.\n",
        "",
    )
    properties = read_meta_properties(files, f"{DATA}/meta.properties")
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == (CLUSTER_ID, 1)
    assert list_snapshots(files, METADATA_LOG) == [SnapshotId(0, 0)]
    snapshot = read_snapshot(files, f"{METADATA_LOG}/{snapshot_name(SnapshotId(0, 0))}")
    assert snapshot.kraft_version == 1
    assert snapshot.voters is not None
    (voter,) = snapshot.voters.voters
    assert (voter.voter_id, voter.voter_directory_id) == (1, properties.directory_id)
    assert [(e.name, e.host, e.port) for e in voter.endpoints] == [("CONTROLLER", "127.0.0.1", 9093)]
    assert read_bootstrap_records(one_node_config(), files) == [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
    ]


@pytest.mark.parametrize(
    ("listener", "advertised", "address"),
    [
        ("CONTROLLER://0.0.0.0:9093", None, ("localhost", 9093)),
        ("CONTROLLER://:9093", None, ("localhost", 9093)),
        ("CONTROLLER://0.0.0.0:9093", "CONTROLLER://one.example:19093", ("one.example", 19093)),
    ],
)
def test_the_first_voter_has_an_address_that_others_can_reach(
    listener: str, advertised: str | None, address: tuple[str, int]
) -> None:
    files = MemoryFiles()
    told = {} if advertised is None else {"advertised__listeners": advertised}
    assert format_(files, process__roles="controller", listeners=listener, **told)[0] == 0
    voters = read_snapshot(files, f"{METADATA_LOG}/{snapshot_name(SnapshotId(0, 0))}").voters
    assert voters is not None
    assert [(e.host, e.port) for e in voters.voters[0].endpoints] == [address]


def test_what_was_formatted_survives_a_power_cut() -> None:
    files = MemoryFiles()
    format_(files)
    files.cut_power()
    assert ControllerFixture(files).controller.is_active


def test_a_formatted_directory_is_not_formatted_again() -> None:
    files = MemoryFiles()
    format_(files)
    before = files.read_bytes(f"{DATA}/meta.properties")
    assert format_(files) == (
        1,
        "",
        (
            "Log directory /data is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others.\n"
        ),
    )
    assert format_(files, ignore_formatted="yes") == (
        0,
        "All of the log directories are already formatted.\n",
        "",
    )
    assert files.read_bytes(f"{DATA}/meta.properties") == before
    code, _, errors = format_(files, "AAAAAAAAAAAAAAAAAAAAAg", ignore_formatted="yes")
    assert code == 1
    assert errors.startswith(f"Log directory /data belongs to node 1 of cluster {CLUSTER_ID}")


def test_a_new_directory_beside_a_formatted_one_joins_it() -> None:
    files = MemoryFiles()
    format_(files)
    code, output, _ = format_(
        files, ignore_formatted="yes", seed="2", log__dirs="/data,/more", metadata__log__dir=DATA
    )
    assert (code, output) == (0, "Formatting data directory /more with metadata.version 4.3-IV0.\n")
    first = read_meta_properties(files, f"{DATA}/meta.properties")
    second = read_meta_properties(files, "/more/meta.properties")
    assert first is not None
    assert second is not None
    assert first.cluster_id == second.cluster_id
    assert first.directory_id != second.directory_id
    assert files.listdir("/more") == ["meta.properties"]


def test_a_directory_that_log_dirs_names_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for second in (f"{tmp_path}/a/", f"{tmp_path}/b/../a", f"{tmp_path}/link"):
        twice = f"{tmp_path}/a,{second}"
        line = (
            f"Duplicate log directory found: {tmp_path}/a and {second} in log.dirs are the same: name it once"
        )
        assert format_(RealFiles(), log__dirs=twice) == (1, "", f"{line}\n")
        with pytest.raises(StartRefused) as refused:
            identify(one_node_config(log__dirs=twice), may_format=True)
        assert str(refused.value) == line
    assert list((tmp_path / "a").iterdir()) == []


def test_the_metadata_log_s_directory_may_be_a_log_directory_in_other_words(tmp_path: Path) -> None:
    settings = {"log__dirs": f"{tmp_path}/a", "metadata__log__dir": f"{tmp_path}/a/"}
    code, output, _ = format_(RealFiles(), **settings)
    assert (code, output.count("Formatting")) == (0, 1)
    assert output.startswith("Formatting dynamic metadata voter directory")


@pytest.mark.parametrize("cluster_id", ["my-cluster", " a\\b #1:=! ", "Zürich 東京 🏰", "tab\tline\n"])
def test_a_cluster_id_is_any_text(cluster_id: str) -> None:
    files = MemoryFiles()
    assert format_(files, cluster_id)[0] == 0
    properties = read_meta_properties(files, f"{DATA}/meta.properties")
    assert properties is not None
    assert properties.cluster_id == cluster_id


@pytest.mark.parametrize(
    ("cluster_id", "fault"),
    [
        ("", "You must specify the cluster id.\n"),
        ("\udcff", "The cluster id '\\udcff' is not text in UTF-8.\n"),
    ],
)
def test_a_cluster_id_that_is_no_text_is_refused(cluster_id: str, fault: str) -> None:
    files = MemoryFiles()
    assert format_(files, cluster_id) == (1, "", fault)
    assert not files.exists(DATA)


ALL_NAMES = ", ".join(METADATA_VERSION_NAMES.values())


@pytest.mark.parametrize(
    ("release", "features", "level", "elr", "group", "transaction"),
    [
        (None, [], 30, 1, 1, 2),
        ("4.3", ["kraft.version=1", "group.version=0"], 30, 1, 0, 2),
        ("4.3-IV0", ["metadata.version=30", "transaction.version=1"], 30, 1, 1, 1),
        ("4.2", ["transaction.version=0"], 29, 1, 1, 0),
        ("4.2", ["eligible.leader.replicas.version=0"], 29, 0, 1, 2),
        ("4.1-IV0", [], 26, 1, 1, 2),
        ("4.0", [], 25, None, 1, 2),
        ("4.0-IV2", [], 24, None, 1, 2),
        ("4.0-IV1", ["eligible.leader.replicas.version=1"], 23, 1, 1, None),
        ("3.9", [], 21, None, None, None),
        ("3.9", ["transaction.version=2"], 21, None, None, 2),
        ("3.3", [], 7, None, None, None),
        (None, ["metadata.version=17"], 17, None, None, None),
    ],
)
def test_a_cluster_may_begin_at_a_lower_level(
    release: str | None,
    features: list[str],
    level: int,
    elr: int | None,
    group: int | None,
    transaction: int | None,
) -> None:
    expected = {
        "metadata.version": level,
        "eligible.leader.replicas.version": elr,
        "group.version": group,
        "transaction.version": transaction,
    }
    assert wished_levels(release, features) == {k: v for k, v in expected.items() if v is not None}


@pytest.mark.parametrize(
    ("release", "features", "fault"),
    [
        ("9.9", [], f"Unknown metadata.version '9.9'. Supported metadata.version are: {ALL_NAMES}"),
        (None, ["group.version=2"], "Feature group.version at level 2 is not supported by this release"),
        (
            None,
            ["transaction.version=3"],
            "Feature transaction.version at level 3 is not supported by this release",
        ),
        (
            None,
            ["metadata.version=6"],
            "Feature metadata.version at level 6 is not supported by this release",
        ),
        (
            None,
            ["metadata.version=31"],
            "Feature metadata.version at level 31 is not supported by this release",
        ),
        (None, ["metadata.version=0"], "Feature metadata.version cannot be at level 0 in this release"),
        (None, ["kraft.version=2"], "Feature kraft.version at level 2 is not supported by this release"),
        (
            "4.0-IV0",
            ["eligible.leader.replicas.version=1"],
            (
                "eligible.leader.replicas.version could not be set to 1 because it depends on "
                "metadata.version level 23"
            ),
        ),
        (
            None,
            ["eligible.leader.replicas.version=2"],
            "Feature eligible.leader.replicas.version at level 2 is not supported by this release",
        ),
        (None, ["x"], "Can't parse feature=level string x: it must look like metadata.version=30"),
    ],
)
def test_only_levels_that_work_are_taken(release: str | None, features: list[str], fault: str) -> None:
    with pytest.raises(FormatRefused) as refused:
        wished_levels(release, features)
    assert str(refused.value) == fault


def test_kraft_version_is_what_the_config_makes_it() -> None:
    plain = wished_levels(None, [])
    assert wished_levels(None, ["kraft.version=0"], static_voters=True) == plain
    assert wished_levels(None, ["kraft.version=1"], static_voters=False) == plain
    with pytest.raises(FormatRefused, match=r"^Cannot set kraft\.version to 1 with controller\.quorum\.v"):
        wished_levels(None, ["kraft.version=1"], static_voters=True)
    with pytest.raises(FormatRefused, match=r"^Cannot set kraft\.version to 0 without controller\.quorum\.v"):
        wished_levels(None, ["kraft.version=0"], static_voters=False)


def test_info_says_whose_directories_they_are_and_what_is_wrong() -> None:
    files = MemoryFiles()
    format_(files)
    output = io.StringIO()
    assert show_info(one_node_config(), files, output) == 0
    assert output.getvalue().startswith("Found log directory:\n  /data\n\nFound metadata: {cluster.id=uitV0")
    files.makedirs("/empty")
    output = io.StringIO()
    assert show_info(one_node_config(log__dirs="/data,/empty,/gone"), files, output) == 1
    assert output.getvalue().endswith(
        "Found problems:\n  /empty is not formatted.\n  /gone does not exist\n\n"
    )


def test_info_goes_on_behind_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    files = RealFiles()
    directories = f"{tmp_path}/a,{tmp_path}/b"
    format_(files, log__dirs=directories)
    (tmp_path / "a" / "meta.properties").unlink()
    (tmp_path / "a" / "meta.properties").mkdir()
    output = io.StringIO()
    assert show_info(one_node_config(log__dirs=directories), files, output) == 1
    assert "Found metadata: {cluster.id=uitV0" in output.getvalue()
    problem = f"{tmp_path}/a/meta.properties cannot be read: Is a directory"
    assert output.getvalue().endswith(f"Found problem:\n  {problem}\n\n")


def test_a_cluster_with_levels_beyond_ours_stops_the_start_before_anything_is_written() -> None:
    files = MemoryFiles()
    format_(files)
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="transaction.version", feature_level=3),
    ]
    content = encode_snapshot(records, epoch=0, now_ms=0, last_contained_timestamp_ms=0)
    files.write_atomically(f"{DATA}/bootstrap.checkpoint", content)
    with pytest.raises(UnsupportedCluster, match=r"transaction\.version is finalized at level 3"):
        ControllerFixture(files)


DISABLE = "kafka-features.sh AT disable --feature"


@pytest.mark.parametrize(
    ("levels", "command"),
    [
        (
            {"metadata.version": 30, "share.version": 1, "streams.version": 1, "group.version": 1},
            f"{DISABLE} share.version --feature streams.version",
        ),
        (
            {"metadata.version": 31, "share.version": 1},
            "kafka-features.sh AT downgrade --feature metadata.version=30 --feature share.version=0",
        ),
        ({"metadata.version": 6}, "kafka-features.sh AT upgrade --feature metadata.version=7"),
        (
            {"metadata.version": 5, "share.version": 1},
            f"{DISABLE} share.version && kafka-features.sh AT upgrade --feature metadata.version=7",
        ),
        ({"metadata.version": 30}, ""),
    ],
)
def test_the_way_back_is_what_an_operator_types(levels: dict[str, int], command: str) -> None:
    assert way_back(FeaturesImage(levels), SUPPORTED_FEATURES, "AT") == command


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({}, "--bootstrap-server 127.0.0.1:9092"),
        (
            {"advertised__listeners": "PLAINTEXT://kafka.example:19092"},
            "--bootstrap-server kafka.example:19092",
        ),
        (
            {"process__roles": "controller", "listeners": "CONTROLLER://:9093"},
            "--bootstrap-controller localhost:9093",
        ),
    ],
)
def test_it_says_where_the_cluster_is(changes: dict[str, str], option: str) -> None:
    files = MemoryFiles()
    format_(files)
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="share.version", feature_level=1),
    ]
    content = encode_snapshot(records, epoch=0, now_ms=0, last_contained_timestamp_ms=0)
    files.write_atomically(f"{DATA}/bootstrap.checkpoint", content)
    with pytest.raises(UnsupportedCluster) as refused:
        ControllerFixture(files, config=one_node_config(**changes))
    assert str(refused.value).endswith(f": kafka-features.sh {option} disable --feature share.version")


BROKER_ALONE = {
    "process__roles": "broker",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller__quorum__bootstrap__servers": "127.0.0.1:9093",
}


def test_a_broker_has_an_identity_and_no_voters() -> None:
    files = MemoryFiles()
    assert format_(files, **BROKER_ALONE) == (
        0,
        "Formatting metadata directory /data with metadata.version 4.3-IV0.\n",
        "",
    )
    assert read_meta_properties(files, f"{DATA}/meta.properties") is not None
    assert not files.exists(METADATA_LOG)


def test_a_broker_is_told_of_the_first_voters_and_is_none() -> None:
    files = MemoryFiles()
    output = io.StringIO()
    first = parse_initial_voters("7@127.0.0.1:9093:AQAAAAAAAAAAAAAAAAAAAA", "CONTROLLER")
    code = format_directories(
        one_node_config(**BROKER_ALONE),
        CLUSTER_ID,
        files=files,
        clock=HandClock(),
        random_source=SeededRandomSource(1),
        ignore_formatted=False,
        first_voters=first,
        output=output,
        errors=output,
    )
    assert (code, output.getvalue()) == (
        0,
        "Formatting dynamic metadata directory /data with metadata.version 4.3-IV0.\n",
    )
    assert list_snapshots(files, METADATA_LOG) == [SnapshotId(0, 0)]


def test_a_broker_cannot_stand_alone() -> None:
    options = Namespace(standalone=True, initial_controllers=None, no_initial_controllers=False)
    with pytest.raises(FormatRefused, match=r"You can only use --standalone on a controller\."):
        wished_voters(options, one_node_config(**BROKER_ALONE))


NO_OPTION = Namespace(standalone=False, initial_controllers=None, no_initial_controllers=False)
THREE = {"controller__quorum__bootstrap__servers": "h1:9093,h2:9093,h3:9093"}
UNCLEAR = (
    r"^Because controller\.quorum\.voters is not set on this controller, you must specify one of the "
    r"following: --standalone, --initial-controllers, or --no-initial-controllers\."
)


def test_a_controller_that_may_be_one_of_several_is_not_made_the_only_voter_by_default() -> None:
    with pytest.raises(FormatRefused, match=UNCLEAR):
        wished_voters(NO_OPTION, one_node_config(**THREE))
    alone = Namespace(standalone=True, initial_controllers=None, no_initial_controllers=False)
    assert wished_voters(alone, one_node_config(**THREE)) == ()
    assert wished_voters(NO_OPTION, one_node_config()) == ()
    assert wished_voters(NO_OPTION, one_node_config(**BROKER_ALONE | THREE)) == ()


def test_a_start_does_not_make_it_the_only_voter_either(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=rf"{UNCLEAR} .*\(barnabas storage format\)$"):
        identify(one_node_config(log__dirs=str(tmp_path / "a"), **THREE), may_format=True)
    assert not (tmp_path / "a").exists()
    format_(RealFiles(), log__dirs=str(tmp_path / "a"))
    both = one_node_config(log__dirs=f"{tmp_path}/a,{tmp_path}/b", **THREE)
    assert identify(both, may_format=True) == CLUSTER_ID


def test_a_start_formats_a_broker_that_only_looks_for_the_quorum(tmp_path: Path) -> None:
    config = one_node_config(log__dirs=str(tmp_path / "a"), **BROKER_ALONE)
    assert identify(config, may_format=True, new_cluster_id=CLUSTER_ID) == CLUSTER_ID
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "bootstrap.checkpoint",
        "meta.properties",
    ]


def test_a_start_without_bootstrap_records_says_what_to_type() -> None:
    files = MemoryFiles()
    format_(files)
    files.unlink(f"{DATA}/bootstrap.checkpoint")
    with pytest.raises(UnsupportedCluster, match="barnabas storage format"):
        ControllerFixture(files)


def test_a_controller_without_a_listener_cannot_be_the_first_voter() -> None:
    fixture = ControllerFixture()
    with pytest.raises(FormatRefused, match="already formatted"):
        fixture.format()


def test_first_voters_are_read_from_a_text_and_their_own_directory_is_used() -> None:
    text = "1@127.0.0.1:9093:AQAAAAAAAAAAAAAAAAAAAA,2@[::1]:9094:AgAAAAAAAAAAAAAAAAAAAA"
    first, second = parse_initial_voters(text, "CONTROLLER")
    assert first.key == (1, b"\x01" + bytes(15))
    assert second.endpoints == {"CONTROLLER": ("::1", 9094)}
    fixture = ControllerFixture()
    files = MemoryFiles()
    Formatter(
        cluster_id=CLUSTER_ID,
        config=fixture.config,
        files=files,
        clock=fixture.clock,
        random_source=fixture.random_source,
        first_voters=(first, second),
    ).run(io.StringIO())
    properties = read_meta_properties(files, f"{fixture.config.metadata_log_directory}/meta.properties")
    assert properties is not None
    assert properties.directory_id == first.key.directory_id


@pytest.mark.parametrize(
    "text", ["", "1@host:9093", "x@host:9093:AQAAAAAAAAAAAAAAAAAAAA", "1@host:99999:AQAAAAAAAAAAAAAAAAAAAA"]
)
def test_a_text_that_names_no_voters_is_refused(text: str) -> None:
    with pytest.raises(MalformedVoters):
        parse_initial_voters(text, "CONTROLLER")


def test_a_voter_that_is_named_twice_is_refused() -> None:
    entry = "1@host:9093:AQAAAAAAAAAAAAAAAAAAAA"
    with pytest.raises(MalformedVoters):
        parse_initial_voters(f"{entry},{entry}", "CONTROLLER")
