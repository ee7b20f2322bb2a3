"""`barnabas storage`: format a node's directories, say what is in them, make a cluster id.

Words and exit codes are those of Kafka's own tool, because scripts know them: 0 done, 1 refused or
something is wrong. The functions below the commands take plain values, so that `start` formats a first
directory the same way.
"""

from __future__ import annotations

import argparse
import logging
import platform
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

from broker.cli.configuration import load_file
from broker.ports.clock import SystemClock
from broker.ports.files import RealFiles
from broker.ports.random_source import SystemRandomSource
from config.broker_config import BrokerConfig
from config.errors import ConfigError
from config.ports import Clock, Files, RandomSource
from config.setting import Source
from controller.first_credentials import MalformedCredential, parse_first_credentials
from controller.format import (
    FormatRefused,
    Formatter,
    directories_to_format,
    formatted_directories,
    holds_metadata,
)
from controller.initial_voters import MalformedVoters, parse_initial_voters
from controller.metadata.image.features import KRAFT_VERSION, METADATA_VERSION
from controller.metadata.metadata_version import LATEST_METADATA_VERSION, METADATA_VERSION_NAMES
from controller.metadata.random_ids import random_uuid as new_uuid
from controller.metadata.supported_features import (
    SUPPORTED_FEATURES,
    default_levels,
    dependency_fault,
)
from controller.raft.voters import Voter
from protocol.codec.message import Message
from protocol.values import uuid_to_text
from storage.meta_properties import META_PROPERTIES_FILE, MalformedMetaProperties, MetaProperties

_log = logging.getLogger("barnabas.start")

DONE: Final = 0
REFUSED: Final = 1

_NO_WORD_OF_VOTERS: Final = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
    "--standalone, --initial-controllers, or --no-initial-controllers."
)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

NODE_FILE: Final = re.compile(r"node-(\d+)\.properties")
"""The name of the file of each node of `barnabas start --nodes`, in the first of log.dirs."""


class StartRefused(Exception):
    """The node cannot be started as it was told to; the text is one line for the user."""


def random_uuid(_options: argparse.Namespace) -> int:
    """Runs `barnabas storage random-uuid`."""
    print(uuid_to_text(new_uuid(SystemRandomSource())))
    return DONE


def info(options: argparse.Namespace) -> int:
    """Runs `barnabas storage info`."""
    config = _config(options.config, sys.stderr)
    if config is None:
        return REFUSED
    return show_info(config, RealFiles(), sys.stdout)


def format(options: argparse.Namespace) -> int:  # noqa: A001
    """Runs `barnabas storage format`."""
    config = _config(options.config, sys.stderr)
    if config is None:
        return REFUSED
    try:
        levels = wished_levels(
            options.release_version, options.feature, static_voters=bool(config.quorum_voters)
        )
        voters = wished_voters(options, config)
        credentials = parse_first_credentials(options.add_scram, SystemRandomSource())
    except (FormatRefused, MalformedVoters, MalformedCredential) as fault:
        print(fault, file=sys.stderr)
        return REFUSED
    return format_directories(
        config,
        options.cluster_id,
        files=RealFiles(),
        clock=SystemClock(),
        random_source=SystemRandomSource(),
        ignore_formatted=options.ignore_formatted,
        levels=levels,
        first_voters=voters,
        credentials=credentials,
        standalone=config.is_controller and not options.no_initial_controllers,
        output=sys.stdout,
        errors=sys.stderr,
    )


def wished_voters(options: argparse.Namespace, config: BrokerConfig) -> Sequence[Voter]:
    """The voters that --initial-controllers names. Raises FormatRefused for options that contradict each
    other, and without any of them for a controller that may be one of several."""
    given = [
        name
        for name, value in (
            ("--standalone", options.standalone),
            ("--initial-controllers", options.initial_controllers),
            ("--no-initial-controllers", options.no_initial_controllers),
        )
        if value
    ]
    if len(given) > 1:
        raise FormatRefused(f"{' and '.join(given)} cannot be used together")
    if options.standalone and not config.is_controller:
        raise FormatRefused("You can only use --standalone on a controller.")
    if given and config.quorum_voters:
        raise FormatRefused(
            f"You cannot specify {given[0]} and also set controller.quorum.voters: the voters are in the log "
            "or in the config, not in both"
        )
    if not given and may_be_one_of_several(config):
        raise FormatRefused(_NO_WORD_OF_VOTERS)
    if not options.initial_controllers:
        return ()
    return parse_initial_voters(options.initial_controllers, config.controller_listener_names[0])


def may_be_one_of_several(config: BrokerConfig) -> bool:
    """Whether the node is a controller whose config names no voters, and several controllers to look for, or
    one that need not be this node. Were each of them formatted as the only voter, each would begin a cluster
    of its own."""
    if not config.is_controller or config.quorum_voters:
        return False
    name = "controller.quorum.bootstrap.servers"
    servers = config.items(name)
    if len(servers) > 1:
        return True
    if config.static[name].source is Source.DEFAULTS:
        return False  # a start without a file is one node, whatever its listeners are
    return not all(_is_own_address(config, server) for server in servers)


def _is_own_address(config: BrokerConfig, server: str) -> bool:
    """Whether a controller listener of this node has the address `host:port`. Only names that this host has
    by itself count: what else a name server makes of them may change."""
    host, _, port = server.rpartition(":")
    host = host.strip("[]").lower()
    own = (*config.listeners, *config.advertised_listeners, *config.advertised_controller_listeners)
    if int(port) not in [each.port for each in own if each.listener in config.controller_listener_names]:
        return False
    if host in _LOOPBACK or host in [each.host.lower() for each in own]:
        return True
    return host in (platform.node().lower(), socket.getfqdn().lower())


def _config(path: str, errors: TextIO) -> BrokerConfig | None:
    try:
        return load_file(path)
    except ConfigError as fault:
        print(fault, file=errors)
        return None


def wished_levels(
    release_version: str | None, features: Sequence[str], *, static_voters: bool = False
) -> Mapping[str, int]:
    """The levels that the options ask for: metadata.version, and the other features as a new cluster has them
    with it or as they are named. Raises FormatRefused for a level that cannot be formatted.

    static_voters: whether the config names the voters, which decides on kraft.version.
    """
    level = LATEST_METADATA_VERSION
    named: dict[str, int] = {}
    if release_version is not None:
        level = _level_of(release_version)
    for wish in features:
        feature, equals, text = wish.partition("=")
        name = feature.strip()
        if not equals or not text.strip().isdecimal():
            raise FormatRefused(
                f"Can't parse feature=level string {wish}: it must look like {METADATA_VERSION}=30"
            )
        wanted = int(text)
        known = SUPPORTED_FEATURES.get(name)
        if wanted == 0 and name == METADATA_VERSION:
            raise FormatRefused(f"Feature {name} cannot be at level 0 in this release")
        if wanted != 0 and (known is None or not known.covers(wanted)):
            raise FormatRefused(f"Feature {name} at level {wanted} is not supported by this release")
        if name == METADATA_VERSION:
            level = wanted
        elif name == KRAFT_VERSION:
            _check_kraft_version(wanted, static_voters=static_voters)
        elif known is not None:
            named[name] = wanted
    for name, wanted in named.items():
        fault = dependency_fault(name, wanted, level)
        if fault is not None:
            raise FormatRefused(fault)
    return {METADATA_VERSION: level, **default_levels(level), **named}


def _check_kraft_version(wanted: int, *, static_voters: bool) -> None:
    """Raises FormatRefused if kraft.version will be another one: 0 where the config names the voters, 1 where
    their list is in the log."""
    if wanted and static_voters:
        raise FormatRefused(
            f"Cannot set {KRAFT_VERSION} to {wanted} with controller.quorum.voters: remove it, and use "
            "--standalone, --initial-controllers or --no-initial-controllers"
        )
    if not wanted and not static_voters:
        raise FormatRefused(
            f"Cannot set {KRAFT_VERSION} to 0 without controller.quorum.voters: the voters are in the log "
            f"then. Leave out --feature {KRAFT_VERSION}"
        )


def _level_of(release_version: str) -> int:
    """The feature level with this name, or the newest level of a release such as 4.2."""
    for level in sorted(METADATA_VERSION_NAMES, reverse=True):
        name = METADATA_VERSION_NAMES[level]
        if release_version in (name, name.partition("-")[0]):
            return level
    raise FormatRefused(
        f"Unknown metadata.version '{release_version}'. Supported metadata.version are: "
        f"{', '.join(METADATA_VERSION_NAMES.values())}"
    )


def format_directories(
    config: BrokerConfig,
    cluster_id: str,
    *,
    files: Files,
    clock: Clock,
    random_source: RandomSource,
    ignore_formatted: bool,
    output: TextIO,
    errors: TextIO,
    levels: Mapping[str, int] | None = None,
    first_voters: Sequence[Voter] = (),
    credentials: Sequence[Message] = (),
    standalone: bool | None = None,
) -> int:
    """Formats every log directory of the node. Returns the exit code.

    levels: of features; by default those of a new cluster. first_voters: of the quorum; without them a
    controller becomes the only voter, unless standalone is False. credentials: see `Formatter`.
    """
    formatter = Formatter(
        cluster_id=cluster_id,
        config=config,
        files=files,
        clock=clock,
        random_source=random_source,
        standalone=config.is_controller if standalone is None else standalone,
        ignore_formatted=ignore_formatted,
        metadata_version=LATEST_METADATA_VERSION if levels is None else levels[METADATA_VERSION],
        features=None if levels is None else {k: v for k, v in levels.items() if k != METADATA_VERSION},
        first_voters=first_voters,
        credentials=credentials,
    )
    try:
        formatter.run(output)
    except (FormatRefused, MalformedMetaProperties) as fault:
        print(fault, file=errors)
        return REFUSED
    except OSError as fault:
        print(f"Error while formatting: {fault}", file=errors)
        return REFUSED
    return DONE


def identify(config: BrokerConfig, *, may_format: bool, new_cluster_id: str | None = None) -> str:
    """The cluster id in the node's directories; formats empty ones first, if that is allowed. Raises
    StartRefused, MalformedMetaProperties.

    new_cluster_id: for directories of which none is formatted yet; a random one if there is none.
    """
    files = RealFiles()
    found = found_directories(files, config)
    known = [properties for properties in found.values() if properties is not None]
    unformatted = [path for path, properties in found.items() if properties is None]
    if not unformatted:
        return known[0].cluster_id
    if not may_format:
        raise StartRefused(
            f"No meta.properties found in {unformatted[0]}. Format the directory first "
            "(barnabas storage format), or start with --format"
        )
    _check_may_be_formatted(files, config, found)
    if known:
        cluster_id = known[0].cluster_id
    else:
        cluster_id = new_cluster_id or uuid_to_text(new_uuid(SystemRandomSource()))
    formatter = Formatter(
        cluster_id,
        config,
        files,
        SystemClock(),
        SystemRandomSource(),
        standalone=config.is_controller,
        ignore_formatted=bool(known),
        directories=list(found),
    )
    format_at_start(formatter)
    return cluster_id


def found_directories(files: Files, config: BrokerConfig) -> dict[str, MetaProperties | None]:
    """The meta.properties of each directory of the node, None for one that is not formatted. One that cannot
    be read is left out, because the node can go on without it, unless the metadata log is there. Raises
    StartRefused, MalformedMetaProperties."""
    try:
        directories = directories_to_format(config)
    except FormatRefused as refused:
        raise StartRefused(str(refused)) from refused
    found: dict[str, MetaProperties | None] = {}
    for path in directories:
        try:
            found |= formatted_directories(files, [path])
        except OSError as error:
            fault = f"{path}/{META_PROPERTIES_FILE} cannot be read: {error.strerror or error}"
            if holds_metadata(config, path):
                raise StartRefused(fault) from error
            _log.warning("%s. The node starts without this directory", fault)
    return found


def _check_may_be_formatted(
    files: Files, config: BrokerConfig, found: Mapping[str, MetaProperties | None]
) -> None:
    """Raises StartRefused if a start must not format the directories that are not formatted yet."""
    for path, properties in found.items():
        if properties is None and files.exists(path):
            _check_is_empty(path, files.listdir(path))
    metadata = next(path for path in found if holds_metadata(config, path))
    if found[metadata] is not None:
        return
    formatted = [path for path, properties in found.items() if properties is not None]
    if formatted:
        # With an empty metadata log the node would take all its partitions for those of deleted topics.
        raise StartRefused(
            f"No meta.properties found in {metadata}, where the metadata log is, although {formatted[0]} is "
            "formatted: mount it. If it is lost, format it by hand "
            "(barnabas storage format --ignore-formatted); the topics of a quorum of one are lost with it"
        )
    if may_be_one_of_several(config):
        raise StartRefused(
            f"{_NO_WORD_OF_VOTERS} A start cannot tell: format the directory first (barnabas storage format)"
        )


def _check_is_empty(path: str, names: Sequence[str]) -> None:
    """names: what lies in the directory. Raises StartRefused, and advises nobody to remove that."""
    matches = [NODE_FILE.fullmatch(name) for name in names]
    nodes = [int(match[1]) for match in matches if match is not None]
    if nodes:
        raise StartRefused(
            f"{path} holds the nodes of `barnabas start --nodes {max(nodes)}`: start them so, or name other "
            "log.dirs"
        )
    if names:
        raise StartRefused(
            f"{path} is not empty and has no meta.properties: it is not a Kafka data directory, or it was "
            "damaged. Name other log.dirs"
        )


def format_at_start(formatter: Formatter) -> None:
    """Formats the directories of a node that is about to start. Raises StartRefused, OSError."""
    try:
        formatter.run(sys.stderr)
    except FormatRefused as refused:
        raise StartRefused(str(refused)) from refused


def show_info(config: BrokerConfig, files: Files, output: TextIO) -> int:
    """Prints the log directories, their cluster and node, and their problems. Returns 1 if there is a
    problem."""
    directories = list(dict.fromkeys((*config.log_directories, config.metadata_log_directory)))
    problems: list[str] = []
    found: dict[str, MetaProperties] = {}
    missing = [path for path in directories if not files.exists(path)]
    present = [path for path in directories if path not in missing]
    for path in present:
        try:
            properties = formatted_directories(files, [path])[path]
        except MalformedMetaProperties as fault:
            problems.append(str(fault))
            continue
        except OSError as fault:
            problems.append(f"{path}/{META_PROPERTIES_FILE} cannot be read: {fault.strerror}")
            continue
        if properties is None:
            problems.append(f"{path} is not formatted.")
        else:
            found[path] = properties
    problems += [f"{path} does not exist" for path in missing]
    if present:
        print(f"Found log director{'y' if len(present) == 1 else 'ies'}:", file=output)
        for path in present:
            print(f"  {path}", file=output)
        print(file=output)
    identities = {(each.cluster_id, each.node_id) for each in found.values()}
    if len(identities) > 1:
        problems.append("The directories belong to several nodes or clusters")
    if found:
        first = found[next(iter(found))]
        known = [f"cluster.id={first.cluster_id}"]
        if first.directory_id is not None:
            known.append(f"directory.id={uuid_to_text(first.directory_id)}")
        known += [f"node.id={first.node_id}", "version=1"]
        print(f"Found metadata: {{{', '.join(known)}}}", file=output)
        print(file=output)
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:", file=output)
        for problem in problems:
            print(f"  {problem}", file=output)
        print(file=output)
    return REFUSED if problems else DONE
