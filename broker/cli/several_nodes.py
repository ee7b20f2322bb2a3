"""The nodes of `barnabas start --nodes N`: the configuration of each, and its directories.

    data/node-1.properties   the file with which node 1 is started; it is written anew each time
    data/node-1/             its log directory, in each of log.dirs

They are ordinary nodes of one cluster. The first three, or all if they are fewer, are controllers too and
form the quorum; further ones are brokers alone. Node 1 has the addresses of a start without --nodes, each
further node the next free numbers, and advertised.listeners are counted up as listeners are. All have the
rack of this host, so that replicas go to other hosts while there are some.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from broker.cli.configuration import load_file
from broker.cli.storage import NODE_FILE, StartRefused, format_at_start, found_directories
from broker.ports.clock import SystemClock
from broker.ports.files import RealFiles
from broker.ports.random_source import SystemRandomSource
from config.broker_config import BrokerConfig
from config.listeners import Endpoint, address_text
from config.setting import Source
from controller.format import Formatter, is_as_formatted
from controller.metadata.random_ids import random_uuid
from controller.raft.identity import Address, ReplicaKey
from controller.raft.voters import Voter
from protocol.values import uuid_to_text
from storage.meta_properties import META_PROPERTIES_FILE

__all__ = ["LARGEST_QUORUM", "MOST_NODES", "prepare"]

MOST_NODES: Final = 32
LARGEST_QUORUM: Final = 3

GIVEN_TO_EACH: Final = (
    "node.id",
    "broker.id",
    "process.roles",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "metadata.log.dir",
)
"""Settings of a single node, which nobody can give to all of them."""


def prepare(count: int, config: BrokerConfig, new_cluster_id: str | None = None) -> list[Path]:
    """Writes the files of the nodes, and formats the directories that are not formatted yet.

    config: of a start without a file; its settings hold for every node. Returns the files, that of node 1
    first. Raises StartRefused, ConfigError, MalformedMetaProperties and OSError.
    """
    _check(count, config)
    home = Path(config.log_directories[0])
    home.mkdir(parents=True, exist_ok=True)
    found = _files_of_nodes(home)
    most = max(found, default=0)
    if most > count:
        raise StartRefused(
            f"{home} holds {most} nodes: start all of them with --nodes {most}, or name other log.dirs"
        )
    files = [home / f"node-{number}.properties" for number in range(1, count + 1)]
    listeners = _listeners(config, files)
    quorum = min(count, LARGEST_QUORUM)
    servers = ",".join(
        address_text("127.0.0.1" if each.host == "0.0.0.0" else each.host or "localhost", each.port)
        for endpoints in listeners[:quorum]
        for each in endpoints
        if each.listener in config.controller_listener_names
    )
    for number, (file, endpoints) in enumerate(zip(files, listeners, strict=True), 1):
        settings = _settings_of(config, number, count, endpoints, servers)
        _write(file, settings)
    configs = [load_file(str(file)) for file in files]
    _format(configs, new_cluster_id)
    return files


def _check(count: int, config: BrokerConfig) -> None:
    if not 1 <= count <= MOST_NODES:
        raise StartRefused(f"--nodes {count}: from 1 to {MOST_NODES} nodes can run on one host")
    given = [
        name
        for name in GIVEN_TO_EACH
        if name in config.static and config.static[name].source is not Source.DEFAULTS
    ]
    if given:
        raise StartRefused(f"--nodes gives each node its own {' and '.join(given)}: leave it out")
    for path, properties in found_directories(RealFiles(), config).items():
        if properties is not None:
            raise StartRefused(
                f"{path} is the directory of node {properties.node_id}, started without --nodes. Name other "
                "log.dirs for several nodes"
            )


def _files_of_nodes(home: Path) -> list[int]:
    """The numbers of the nodes that were started here before."""
    matches = [NODE_FILE.fullmatch(path.name) for path in home.iterdir()]
    return sorted(int(match[1]) for match in matches if match is not None)


# Addresses


def _listeners(config: BrokerConfig, files: Sequence[Path]) -> list[list[Endpoint]]:
    """The listeners of each node; raises StartRefused if two nodes would have one port."""
    base = config.listeners
    step = len(base)
    nodes = []
    for number, file in enumerate(files):
        kept = _kept_ports(file)
        endpoints = []
        for each in base:
            port = each.port + number * step if each.port else _held_port(each.host, kept.get(each.listener))
            endpoints.append(replace(each, port=port))
        nodes.append(endpoints)
    ports = [each.port for endpoints in nodes for each in endpoints]
    if len(dict.fromkeys(ports)) != len(ports) or max(ports) > 65535:
        told = ", ".join(map(str, sorted(ports)))
        raise StartRefused(
            f"listeners: {len(files)} nodes would need the ports {told}. Give node 1 ports that follow one "
            "another; each further node has the next ones"
        )
    return nodes


def _kept_ports(file: Path) -> Mapping[str, int]:
    """The ports that the kernel gave this node at its first start, by listener: the quorum knows them."""
    if not file.exists():
        return {}
    return {each.listener: each.port for each in load_file(str(file)).listeners}


def _held_port(host: str, kept: int | None) -> int:
    """A port for a listener that has none in the configuration: the one that the node had before, or one that
    the kernel gives.

    It stays bound, without listening, as long as this process lives, so that the kernel gives it to nobody
    else while the node starts or is down. The node may listen on it all the same, as both sides set
    SO_REUSEADDR.
    """
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((host, kept or 0))
    except OSError:
        holder.close()
        if kept is None:
            raise
        return kept  # somebody else listens on it, and the node will say so
    _holders().append(holder)
    return int(holder.getsockname()[1])


@cache
def _holders() -> list[socket.socket]:
    """Those of this process."""
    return []


# Settings


def _settings_of(
    config: BrokerConfig, number: int, count: int, endpoints: Sequence[Endpoint], servers: str
) -> dict[str, str]:
    is_controller = number <= min(count, LARGEST_QUORUM)
    names = config.controller_listener_names
    own = [each for each in endpoints if is_controller or each.listener not in names]
    settings = {name: setting.text for name, setting in config.static.items() if name not in GIVEN_TO_EACH}
    settings |= {
        name: text for name, text in _copies(count).items() if config.static[name].source is Source.DEFAULTS
    }
    settings |= {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(number),
        "listeners": ",".join(map(str, own)),
        "controller.quorum.bootstrap.servers": servers,
        "controller.quorum.auto.join.enable": str(is_controller).lower(),
        "log.dirs": ",".join(f"{path}/node-{number}" for path in config.log_directories),
    }
    if told := _advertised(config, number, own):
        settings["advertised.listeners"] = ",".join(map(str, told))
    settings.setdefault("broker.rack", platform.node() or "localhost")
    if config.admin_listener is not None:
        host, port = config.admin_listener
        settings["barnabas.admin.listener"] = address_text(host, port + number - 1 if port else 0)
    return settings


def _advertised(config: BrokerConfig, number: int, own: Sequence[Endpoint]) -> list[Endpoint]:
    """What advertised.listeners says of the listeners of a node, its ports counted up as theirs are."""
    given = [text.partition("://")[0].upper() for text in config.items("advertised.listeners")]
    names = [each.listener for each in own if each.listener in given]
    step = len(config.listeners)
    return [
        replace(each, port=each.port + (number - 1) * step if each.port else 0)
        for each in (*config.advertised_listeners, *config.advertised_controller_listeners)
        if each.listener in names
    ]


def _copies(count: int) -> dict[str, str]:
    """The replication factors of internal topics: Kafka's defaults, or fewer with fewer nodes."""
    copies, needed = str(min(count, 3)), "2" if count > 2 else "1"
    return {
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": needed,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": needed,
    }


def _write(file: Path, settings: Mapping[str, str]) -> None:
    lines = [f"{name}={text}\n".replace("\\", "\\\\") for name, text in sorted(settings.items())]
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # there may be passwords in it
    with open(descriptor, "w", encoding="iso-8859-1", errors="backslashreplace") as stream:
        stream.writelines(["# Written by `barnabas start --nodes`, at each start.\n", *lines])


# Directories


def _format(configs: Sequence[BrokerConfig], new_cluster_id: str | None) -> None:
    """Formats all nodes of a new cluster with its first voters, or the nodes that join an older cluster."""
    files, random_source = RealFiles(), SystemRandomSource()
    found = [(config, found_directories(files, config)) for config in configs]
    known = {
        path: properties
        for _, directories in found
        for path, properties in directories.items()
        if properties is not None
    }
    unformatted = [(config, list(each)) for config, each in found if None in each.values()]
    cluster_id = new_cluster_id or uuid_to_text(random_uuid(random_source))
    if known:
        cluster_id = next(iter(known.values())).cluster_id
    if unformatted and all(is_as_formatted(files, path) for path in known):
        # An earlier format was broken off, and only that one knew the directory ids of the voters that it has
        # written down: nobody could be elected. No node has run yet, so all are formatted anew.
        for path in known:
            files.unlink(f"{path}/{META_PROPERTIES_FILE}")
        known = {}
        unformatted = [(config, list(directories)) for config, directories in found]
    voters = (
        () if known else [_voter(each, random_uuid(random_source)) for each in configs if each.is_controller]
    )
    for config, readable in unformatted:
        formatter = Formatter(
            cluster_id,
            config,
            files,
            SystemClock(),
            random_source,
            standalone=False,
            ignore_formatted=True,
            first_voters=tuple(voters) if config.is_controller else (),
            directories=readable,
        )
        format_at_start(formatter)


def _voter(config: BrokerConfig, directory_id: bytes) -> Voter:
    addresses = {
        each.listener: Address(each.host or "localhost", each.port)
        for each in config.advertised_controller_listeners
    }
    return Voter(ReplicaKey(config.node_id, directory_id), MappingProxyType(addresses))
