"""Which of its directories a node formats when it starts, and which voters it may make for that."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from broker.cli.configuration import load_configuration, load_file
from broker.cli.several_nodes import prepare
from broker.cli.storage import StartRefused, identify, wished_voters
from config.broker_config import BrokerConfig
from controller.format import FormatRefused
from tests.support.rigs.controllers import CLUSTER_ID, one_node_config

NO_OPTION = Namespace(standalone=False, initial_controllers=None, no_initial_controllers=False)
UNCLEAR = r"^Because controller\.quorum\.voters is not set on this controller, you must specify one of "


def of_a_file(folder: Path, **settings: str) -> BrokerConfig:
    """The config of a combined node as a file tells it (dots as double underscores)."""
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
        "advertised.listeners": "PLAINTEXT://one.example:9092",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        **{name.replace("__", "."): text for name, text in settings.items()},
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    return load_file(str(file))


@pytest.mark.parametrize(
    ("server", "is_this_node"),
    [
        ("localhost:9093", True),
        ("127.0.0.1:9093", True),
        ("[::1]:9093", True),
        ("0.0.0.0:9093", True),
        ("One.Example:9093", True),
        ("this-host:9093", True),
        ("this-host.example:9093", True),
        ("localhost:9094", False),
        ("localhost:9092", False),
        ("two.example:9093", False),
        ("127.0.0.2:9093", False),
    ],
)
def test_one_bootstrap_server_may_be_another_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, is_this_node: bool
) -> None:
    """The second controller of that one would begin a second quorum with the id of the first."""
    monkeypatch.setattr("platform.node", lambda: "this-host")
    monkeypatch.setattr("socket.getfqdn", lambda: "this-host.example")
    config = of_a_file(tmp_path, controller__quorum__bootstrap__servers=server)
    if is_this_node:
        assert wished_voters(NO_OPTION, config) == ()
        return
    with pytest.raises(FormatRefused, match=UNCLEAR):
        wished_voters(NO_OPTION, config)
    with pytest.raises(StartRefused, match=UNCLEAR):
        identify(config, may_format=True)
    assert not (tmp_path / "data").exists()


def test_the_advertised_address_of_a_controller_is_its_own(tmp_path: Path) -> None:
    told = "PLAINTEXT://one.example:9092,CONTROLLER://one.example:19093"
    servers = "one.example:19093"
    config = of_a_file(tmp_path, advertised__listeners=told, controller__quorum__bootstrap__servers=servers)
    assert wished_voters(NO_OPTION, config) == ()


def test_a_start_does_not_make_a_lost_metadata_log_anew(tmp_path: Path) -> None:
    """As where one of two disks is not mounted: all logs on the other one would be set aside as strays."""
    first, second = tmp_path / "first", tmp_path / "second"
    config = one_node_config(log__dirs=f"{first},{second}")
    assert identify(config, may_format=True, new_cluster_id=CLUSTER_ID) == CLUSTER_ID
    shutil.rmtree(first)
    for _ in ("without the mount point", "with it"):
        with pytest.raises(StartRefused, match=rf"^No meta\.properties found in {first}, .* mount it\."):
            identify(config, may_format=True)
        first.mkdir(exist_ok=True)
        assert list(first.iterdir()) == []
    shutil.rmtree(second)
    assert identify(config, may_format=True, new_cluster_id=CLUSTER_ID) == CLUSTER_ID


def test_the_directory_of_the_metadata_log_is_formatted_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So a start completes a format that was broken off."""
    first, second, third = tmp_path / "first", tmp_path / "second", tmp_path / "third"
    config = one_node_config(log__dirs=f"{first},{second}", metadata__log__dir=str(third))
    assert identify(config, may_format=True, new_cluster_id=CLUSTER_ID) == CLUSTER_ID
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" with ")[0].rpartition(" ")[2] for line in lines] == [
        str(third),
        str(first),
        str(second),
    ]
    shutil.rmtree(first)
    shutil.rmtree(second)
    assert identify(config, may_format=True) == CLUSTER_ID
    assert (second / "meta.properties").exists()


def make_unreadable(directory: Path) -> None:
    """As on a disk that fails; a directory in the place of the file gives an error to root too."""
    (directory / "meta.properties").unlink(missing_ok=True)
    (directory / "meta.properties").mkdir(parents=True)


def test_a_directory_that_cannot_be_read_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = tmp_path / "first", tmp_path / "second", tmp_path / "third"
    two = one_node_config(log__dirs=f"{first},{second}")
    assert identify(two, may_format=True, new_cluster_id=CLUSTER_ID) == CLUSTER_ID
    make_unreadable(second)
    assert identify(two, may_format=False) == CLUSTER_ID
    fault = f"{second}/meta.properties cannot be read: Is a directory. The node starts without this directory"
    assert [record.getMessage() for record in caplog.records] == [fault]
    three = one_node_config(log__dirs=f"{first},{second},{third}")
    assert identify(three, may_format=True) == CLUSTER_ID
    assert (third / "meta.properties").is_file()
    assert list((second / "meta.properties").iterdir()) == []


def test_the_directory_of_the_metadata_log_must_be_readable(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    config = one_node_config(log__dirs=f"{first},{second}")
    assert identify(config, may_format=True, new_cluster_id=CLUSTER_ID) == CLUSTER_ID
    make_unreadable(first)
    with pytest.raises(StartRefused, match=rf"^{first}/meta\.properties cannot be read: Is a directory$"):
        identify(config, may_format=True)


def test_the_directory_of_several_nodes_is_named_as_theirs(tmp_path: Path) -> None:
    """Whoever has started `--nodes` before, and forgets it once, must not be told to empty the directory."""
    data = tmp_path / "data"
    prepare(3, load_configuration(None, [f"log.dirs={data}"]).config)
    words = rf"^{data} holds the nodes of `barnabas start --nodes 3`: start them so, or name other log\.dirs$"
    with pytest.raises(StartRefused, match=words):
        identify(one_node_config(log__dirs=str(data)), may_format=True)


def test_a_directory_that_is_somebody_else_s_stays_his(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(StartRefused, match=r"is not empty and .* Name other log\.dirs$"):
        identify(one_node_config(log__dirs=str(tmp_path)), may_format=True)
