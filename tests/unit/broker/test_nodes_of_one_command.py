"""What `barnabas start --nodes N` writes before its nodes run."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from broker.cli import several_nodes
from broker.cli.configuration import load_configuration, load_file
from broker.cli.several_nodes import prepare
from broker.cli.storage import format_at_start
from broker.ports.files import RealFiles
from config.broker_config import BrokerConfig
from controller.format import Formatter
from controller.raft.snapshot_files import FORMAT_SNAPSHOT, read_control, snapshot_name
from storage.meta_properties import MetaProperties, read_meta_properties
from tests.support.rigs.controllers import CLUSTER_ID

FIRST_VOTERS = f"__cluster_metadata-0/{snapshot_name(FORMAT_SNAPSHOT)}"


def config_of(folder: Path, *overrides: str) -> BrokerConfig:
    listeners = "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    return load_configuration(None, [f"log.dirs={folder}", listeners, *overrides]).config


def identity(folder: Path, number: int) -> MetaProperties:
    properties = read_meta_properties(RealFiles(), f"{folder}/node-{number}/meta.properties")
    assert properties is not None
    return properties


def first_voters(folder: Path, number: int) -> dict[int, bytes]:
    """The directory ids of the voters with whom the node's metadata log begins."""
    voters = read_control(RealFiles(), f"{folder}/node-{number}/{FIRST_VOTERS}").voters
    assert voters is not None
    return {voter.voter_id: voter.voter_directory_id for voter in voters.voters}


@pytest.mark.parametrize("formatted_nodes", [0, 1, 2])
def test_a_format_that_was_broken_off_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formatted_nodes: int
) -> None:
    """The first voters must have the directory ids that are written down, or nobody can be elected."""
    done: list[Formatter] = []

    def broken_off(formatter: Formatter) -> None:
        if len(done) == formatted_nodes:
            raise OSError(errno.EIO, "Input/output error")
        done.append(formatter)
        format_at_start(formatter)

    with monkeypatch.context() as patch:
        patch.setattr(several_nodes, "format_at_start", broken_off)
        with pytest.raises(OSError, match="Input/output error"):
            prepare(3, config_of(tmp_path), CLUSTER_ID)
    assert len(list(tmp_path.glob("node-?/meta.properties"))) == formatted_nodes
    prepare(3, config_of(tmp_path), None if formatted_nodes else CLUSTER_ID)
    told = {number: identity(tmp_path, number).directory_id for number in (1, 2, 3)}
    for number in (1, 2, 3):
        assert first_voters(tmp_path, number) == told
        assert identity(tmp_path, number).cluster_id == CLUSTER_ID


def test_a_node_that_has_run_is_not_formatted_anew(tmp_path: Path) -> None:
    """The quorum may have elected with its votes."""
    prepare(3, config_of(tmp_path))
    before = identity(tmp_path, 1), first_voters(tmp_path, 1)
    (tmp_path / "node-1" / ".lock").touch()
    shutil.rmtree(tmp_path / "node-2")
    prepare(3, config_of(tmp_path))
    assert (identity(tmp_path, 1), first_voters(tmp_path, 1)) == before
    assert identity(tmp_path, 2).cluster_id == before[0].cluster_id
    assert not (tmp_path / "node-2" / FIRST_VOTERS).exists()


def test_nodes_that_are_all_formatted_stay_as_they_are(tmp_path: Path) -> None:
    prepare(3, config_of(tmp_path))
    before = [identity(tmp_path, number) for number in (1, 2, 3)]
    prepare(3, config_of(tmp_path))
    assert [identity(tmp_path, number) for number in (1, 2, 3)] == before


def test_advertised_addresses_are_counted_up_as_the_listeners_are(tmp_path: Path) -> None:
    """Where nodes listen on all interfaces they must be given, as to one node."""
    everywhere = "listeners=PLAINTEXT://0.0.0.0:9092,EXTERNAL://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094"
    protocols = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    told = "advertised.listeners=plaintext://[fe80::1]:9092,EXTERNAL://kafka.example:19093"
    files = prepare(4, config_of(tmp_path, everywhere, protocols, told))
    configs = [load_file(str(file)) for file in files]
    assert [[str(each) for each in config.advertised_listeners] for config in configs] == [
        [f"PLAINTEXT://[fe80::1]:{9092 + 3 * number}", f"EXTERNAL://kafka.example:{19093 + 3 * number}"]
        for number in range(4)
    ]
    assert [len(config.listeners) for config in configs] == [3, 3, 3, 2]


def test_a_controller_s_advertised_address_is_that_of_the_voter(tmp_path: Path) -> None:
    told = "advertised.listeners=PLAINTEXT://one.example:19092,CONTROLLER://one.example:29093"
    files = prepare(4, config_of(tmp_path, told))
    addresses = [load_file(str(file)).advertised_controller_listeners for file in files]
    assert [list(map(str, each)) for each in addresses] == [
        ["CONTROLLER://one.example:29093"],
        ["CONTROLLER://one.example:29095"],
        ["CONTROLLER://one.example:29097"],
        [],
    ]
