"""What `storage format` writes: a node's identity, and the beginning of its cluster's metadata.

    <log.dir>/meta.properties                                     in every directory
    <metadata.log.dir>/bootstrap.checkpoint                       feature levels for the first controller
    <metadata.log.dir>/__cluster_metadata-0/00…0-00…0.checkpoint  kraft.version and the first voter

Only feature levels that work here are written. meta.properties comes last in each directory: a directory
without it is not formatted, and formatting it again is safe.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TextIO

import msgspec

from config.broker_config import BrokerConfig
from config.ports import Clock, Files, RandomSource
from controller.metadata.image.features import METADATA_VERSION
from controller.metadata.log import METADATA_PARTITION
from controller.metadata.metadata_version import LATEST_METADATA_VERSION, METADATA_VERSION_NAMES, SCRAM_LEVEL
from controller.metadata.random_ids import random_uuid
from controller.metadata.snapshots import BOOTSTRAP_FILE, encode_snapshot, read_snapshot
from controller.metadata.supported_features import default_levels
from controller.metadata.topic_names import METADATA_TOPIC
from controller.raft.identity import Address, ReplicaKey
from controller.raft.snapshot_files import FORMAT_SNAPSHOT, snapshot_name, write_snapshot
from controller.raft.voters import Endpoints, Voter, VoterSet
from protocol.codec.message import Message
from protocol.metadata_log.cluster import FeatureLevelRecord
from storage.file_names import partition_directory
from storage.meta_properties import (
    META_PROPERTIES_FILE,
    MetaProperties,
    encode_meta_properties,
    read_meta_properties,
)

__all__ = [
    "FormatRefused",
    "Formatter",
    "directories_to_format",
    "formatted_directories",
    "holds_metadata",
    "is_as_formatted",
    "read_bootstrap_records",
]


class FormatRefused(Exception):
    """The directories stay as they are. The text is the last line that the tool prints."""


def directories_to_format(config: BrokerConfig) -> list[str]:
    """The log directories, and that of the metadata log if it is none of them. Raises FormatRefused if
    log.dirs names one twice in other words: its second identity would take the place of the first."""
    found: dict[str, str] = {}
    for path in config.log_directories:
        first = found.setdefault(os.path.realpath(path), path)
        if first != path:
            raise FormatRefused(
                f"Duplicate log directory found: {first} and {path} in log.dirs are the same: name it once"
            )
    found.setdefault(os.path.realpath(config.metadata_log_directory), config.metadata_log_directory)
    return list(found.values())


def holds_metadata(config: BrokerConfig, path: str) -> bool:
    """Whether this directory is that of the metadata log, however it is written."""
    return os.path.realpath(path) == os.path.realpath(config.metadata_log_directory)


def formatted_directories(files: Files, directories: Sequence[str]) -> dict[str, MetaProperties | None]:
    """The meta.properties of each directory; None for one that has no such file. Raises
    MalformedMetaProperties."""
    return {path: read_meta_properties(files, f"{path}/{META_PROPERTIES_FILE}") for path in directories}


def is_as_formatted(files: Files, path: str) -> bool:
    """Whether a formatted directory holds nothing but what a format writes: its node has never started."""
    metadata_log = partition_directory(METADATA_TOPIC, METADATA_PARTITION)
    names = files.listdir(path)
    if not {META_PROPERTIES_FILE, BOOTSTRAP_FILE, metadata_log}.issuperset(names):
        return False
    first_voters = [snapshot_name(FORMAT_SNAPSHOT)]
    return metadata_log not in names or files.listdir(f"{path}/{metadata_log}") == first_voters


def read_bootstrap_records(config: BrokerConfig, files: Files) -> Sequence[Message]:
    """The records with which the first controller begins. There are none if the file is missing."""
    path = f"{config.metadata_log_directory}/{BOOTSTRAP_FILE}"
    return read_snapshot(files, path).records if files.exists(path) else ()


class Formatter(msgspec.Struct, frozen=True):
    """One call of `storage format`.

    cluster_id: any text, though most are UUIDs. standalone: the node becomes the one voter of a new quorum,
    unless first_voters names its voters or the config does (`controller.quorum.voters`, kraft.version 0);
    without all of these it finds the quorum by its config, and may join it. features: levels of other
    features than metadata.version, where they are not the default ones. credentials: records of SCRAM
    credentials with which a new cluster begins. directories: those of the node that
    can be read, where others are left as they are.
    """

    cluster_id: str
    config: BrokerConfig
    files: Files
    clock: Clock
    random_source: RandomSource
    standalone: bool = True
    ignore_formatted: bool = False
    metadata_version: int = LATEST_METADATA_VERSION
    features: Mapping[str, int] | None = None
    credentials: Sequence[Message] = ()
    first_voters: Sequence[Voter] = ()
    directories: Sequence[str] | None = None

    @property
    def _names_voters(self) -> bool:
        """Whether the first voters are written into the node's own log."""
        return bool(self.first_voters) or (self.standalone and not self.config.quorum_voters)

    def run(self, output: TextIO) -> None:
        """Formats all log directories and says so. Raises FormatRefused and OSError."""
        self._check_cluster_id()
        self._check_credentials()
        directories = directories_to_format(self.config) if self.directories is None else self.directories
        found = formatted_directories(self.files, directories)
        todo = [path for path in directories if found[path] is None]
        done = [path for path in directories if found[path] is not None]
        if done and not self.ignore_formatted:
            raise FormatRefused(
                f"Log directory {done[0]} is already formatted. Use --ignore-formatted to ignore this "
                "directory and format the others."
            )
        for path in done:
            self._check_identity(path, found[path])
        if not todo:
            print("All of the log directories are already formatted.", file=output)
            return
        # The directory of the metadata log comes first. A format that is broken off behind it is completed by
        # a start; one that left only other directories formatted would look like a disk that is not mounted.
        for path in sorted(todo, key=self._is_metadata, reverse=True):
            self._format(path, is_metadata=self._is_metadata(path), output=output)

    def _is_metadata(self, path: str) -> bool:
        return holds_metadata(self.config, path)

    def _check_credentials(self) -> None:
        if self.credentials and self.metadata_version < SCRAM_LEVEL:
            first = METADATA_VERSION_NAMES[SCRAM_LEVEL]
            raise FormatRefused(f"SCRAM is only supported in {METADATA_VERSION} {first} or later.")

    def _check_cluster_id(self) -> None:
        if not self.cluster_id:
            raise FormatRefused("You must specify the cluster id.")
        try:
            self.cluster_id.encode()
        except UnicodeEncodeError:
            raise FormatRefused(f"The cluster id {self.cluster_id!r} is not text in UTF-8.") from None

    def _check_identity(self, path: str, known: MetaProperties | None) -> None:
        if known is not None and (known.cluster_id, known.node_id) != (self.cluster_id, self.config.node_id):
            raise FormatRefused(
                f"Log directory {path} belongs to node {known.node_id} of cluster {known.cluster_id}, and "
                f"not to node {self.config.node_id} of cluster {self.cluster_id}"
            )

    def _format(self, path: str, *, is_metadata: bool, output: TextIO) -> None:
        name = METADATA_VERSION_NAMES[self.metadata_version]
        kind = "data directory"
        if is_metadata:
            kind = "metadata directory"
            if self._names_voters:
                is_voter = not self.first_voters or any(
                    voter.key.id == self.config.node_id for voter in self.first_voters
                )
                kind = "dynamic metadata voter directory" if is_voter else "dynamic metadata directory"
        print(f"Formatting {kind} {path} with {METADATA_VERSION} {name}.", file=output)
        directory_id = self._directory_id(is_metadata=is_metadata)
        now_ms = self.clock.wall_ms()
        self.files.makedirs(path)
        if is_metadata:
            levels = default_levels(self.metadata_version) if self.features is None else self.features
            records: list[Message] = [
                FeatureLevelRecord(name=name, feature_level=level)
                for name, level in ((METADATA_VERSION, self.metadata_version), *sorted(levels.items()))
                if level > 0
            ]
            records += self.credentials
            content = encode_snapshot(records, epoch=0, now_ms=now_ms, last_contained_timestamp_ms=0)
            self.files.write_atomically(f"{path}/{BOOTSTRAP_FILE}", content)
            if self._names_voters:
                self._write_first_voters(path, directory_id, now_ms)
        properties = MetaProperties(
            cluster_id=self.cluster_id, node_id=self.config.node_id, directory_id=directory_id
        )
        self.files.write_atomically(
            f"{path}/{META_PROPERTIES_FILE}", encode_meta_properties(properties, now_ms)
        )

    def _directory_id(self, *, is_metadata: bool) -> bytes:
        """The directory id from the list of the first voters, if this node is among them."""
        if is_metadata:
            for voter in self.first_voters:
                if voter.key.id == self.config.node_id:
                    return voter.key.directory_id
        return random_uuid(self.random_source)

    def _write_first_voters(self, path: str, directory_id: bytes, now_ms: int) -> None:
        voters = VoterSet.of(self.first_voters or (self._own_voter(directory_id),))
        directory = f"{path}/{partition_directory(METADATA_TOPIC, METADATA_PARTITION)}"
        self.files.makedirs(directory)
        content = encode_snapshot(
            (), epoch=0, now_ms=now_ms, last_contained_timestamp_ms=now_ms, voters=voters.to_record()
        )
        write_snapshot(self.files, directory, FORMAT_SNAPSHOT, content)

    def _own_voter(self, directory_id: bytes) -> Voter:
        return Voter(ReplicaKey(self.config.node_id, directory_id), self._endpoints())

    def _endpoints(self) -> Endpoints:
        """The addresses of this controller. One that is bound to every interface or to any port is corrected
        at the start."""
        listeners = self.config.advertised_controller_listeners
        if not listeners:
            raise FormatRefused(
                "The node has no controller listener: --standalone needs process.roles with controller, and "
                "controller.listener.names naming one of listeners"
            )
        return MappingProxyType(
            {each.listener: Address(each.host or "localhost", each.port) for each in listeners}
        )
