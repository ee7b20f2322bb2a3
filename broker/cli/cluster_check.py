"""`barnabas config check --cluster HOST:PORT`: what keeps a node of this release out of that cluster.

The controllers of a cluster refuse a broker that does not support the finalized features, and each node needs
an id of its own. Every obstacle is printed, with the command that removes it where there is one. Without the
node's file only the features are checked; with it also its id, its advertised listeners and its directories,
and the cluster is asked over TLS where the file says that brokers speak it to each other.
The exit code is 0 if there is no obstacle, 1 if there is one, 2 if the cluster cannot be asked.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TextIO, TypeVar

import msgspec

from broker.cli.configuration import load_file
from broker.network.tls.contexts import client_context
from broker.network.tls.stores import StoreRefused
from broker.ports.files import RealFiles
from config.broker_config import BrokerConfig
from config.errors import ConfigError
from config.tls_settings import tls_settings
from controller.format import formatted_directories
from controller.metadata.image.features import FeaturesImage
from controller.metadata.supported_features import SUPPORTED_FEATURES, unsupported_levels, way_back
from protocol.codec.message import Message
from protocol.errors import ErrorCode, ProtocolError
from protocol.framing import decode_response, encode_request_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.registry import api
from storage.meta_properties import MalformedMetaProperties

__all__ = ["Cluster", "NotAsked", "ask_cluster", "check_cluster", "obstacles"]

NOTHING_IN_THE_WAY: Final = 0
IN_THE_WAY: Final = 1
NOT_ASKED: Final = 2

TIMEOUT_SECONDS: Final = 10
LARGEST_ANSWER_BYTES: Final = 16 << 20
FEATURES_SINCE: Final = 3
CLIENT_ID: Final = "barnabas-config-check"

M = TypeVar("M", bound=Message)


class NotAsked(Exception):
    """The cluster does not answer; the text is one line for the operator."""


class _Closed(ProtocolError):
    """The broker has closed the connection."""


class Cluster(msgspec.Struct, frozen=True):
    """What a broker tells of its cluster. bootstrap: where it was asked. brokers: addresses of those that are
    not fenced, by id."""

    bootstrap: str
    cluster_id: str
    levels: Mapping[str, int]
    brokers: Mapping[int, str]


def check_cluster(bootstrap: str, file: str | None, out: TextIO) -> int:
    """Writes what stands in the way to `out`; returns the exit code."""
    try:
        config = None if file is None else load_file(file)
        found = obstacles(ask_cluster(bootstrap, None if config is None else _tls_of(config)), config)
    except (NotAsked, ConfigError, MalformedMetaProperties) as problem:
        out.write(f"{problem}\n")
        return NOT_ASKED
    except OSError as problem:
        out.write(f"The node's directories cannot be read: {problem}\n")
        return NOT_ASKED
    if not found:
        node = "A node of this release" if config is None else f"Node {config.node_id}"
        out.write(f"{node} can join the cluster of {bootstrap}: nothing stands in the way\n")
        return NOTHING_IN_THE_WAY
    out.write(f"what keeps this node out of the cluster of {bootstrap}\n")
    out.writelines(f"  {each}\n" for each in found)
    return IN_THE_WAY


def obstacles(cluster: Cluster, config: BrokerConfig | None) -> list[str]:
    """A line for each obstacle. Without a config only the release itself is looked at. Raises
    MalformedMetaProperties, OSError."""
    found = _features_in_the_way(cluster)
    if config is not None:
        found += _identities_in_the_way(cluster, config)
    return found


def _features_in_the_way(cluster: Cluster) -> list[str]:
    features = FeaturesImage(MappingProxyType(dict(cluster.levels)))
    found = unsupported_levels(features, SUPPORTED_FEATURES)
    if found:
        option = f"--bootstrap-server {cluster.bootstrap}"
        found.append(f"type: {way_back(features, SUPPORTED_FEATURES, option)}")
    return found


def _identities_in_the_way(cluster: Cluster, config: BrokerConfig) -> list[str]:
    found = []
    taken = cluster.brokers.get(config.node_id) if config.is_broker else None
    own = [f"{each.host}:{each.port}" for each in config.advertised_listeners] if config.is_broker else []
    if taken is not None and taken not in own:
        known = ", ".join(map(str, sorted(cluster.brokers)))
        found.append(f"node.id {config.node_id} is that of the broker at {taken}. Ids in use: {known}")
    for broker_id, address in cluster.brokers.items():
        if broker_id != config.node_id and address in own:
            found.append(f"advertised.listeners: {address} is where broker {broker_id} listens")
    directories = list(dict.fromkeys((*config.log_directories, config.metadata_log_directory)))
    for path, properties in formatted_directories(RealFiles(), directories).items():
        if properties is None:
            joins = config.is_controller and not config.quorum_voters
            options = f"-t {cluster.cluster_id}{' --no-initial-controllers' if joins else ''} -c FILE"
            found.append(f"{path} is not formatted. Type: barnabas storage format {options}")
        elif properties.cluster_id != cluster.cluster_id:
            found.append(f"{path} belongs to cluster {properties.cluster_id}, not to {cluster.cluster_id}")
        elif properties.node_id != config.node_id:
            found.append(f"{path} belongs to node {properties.node_id}, not to node {config.node_id}")
    return found


def _tls_of(config: BrokerConfig) -> ssl.SSLContext | None:
    """How this node would speak TLS to other brokers; None if they speak without it. Raises NotAsked."""
    settings = tls_settings(config, config.inter_broker_listener_name) if config.is_broker else None
    try:
        return None if settings is None else client_context(settings)
    except StoreRefused as refusal:
        raise NotAsked(str(refusal)) from None


def ask_cluster(bootstrap: str, tls: ssl.SSLContext | None = None) -> Cluster:
    """Asks the first of these brokers that answers. Raises NotAsked."""
    problems = []
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon or not port.isdecimal():
            raise NotAsked(f"{address!r} is no address: --cluster takes HOST:PORT of a broker of the cluster")
        try:
            host = host.strip("[]")
            with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as connection:
                if tls is None:
                    return _ask(connection, bootstrap)
                with tls.wrap_socket(connection, server_hostname=host) as secured:
                    return _ask(secured, bootstrap)
        except (OSError, OverflowError, UnicodeError, ProtocolError) as problem:
            problems.append(f"{address.strip()} does not answer as a broker does: {problem}")
    raise NotAsked("; ".join(problems))


def _ask(connection: socket.socket, bootstrap: str) -> Cluster:
    request = ApiVersionsRequest("barnabas", "1")
    told = _call(connection, request, ApiVersionsResponse, FEATURES_SINCE)
    served = {each.api_key: each for each in told.api_keys}
    describing = api(DescribeClusterRequest.declaration.key or 0)
    there = served.get(describing.key)
    if told.error_code or there is None:
        raise ProtocolError(
            f"it does not serve {describing.name} (error {ErrorCode.of(told.error_code).name})"
        )
    version = min(there.max_version, describing.versions.last)
    try:
        answer = _call(connection, DescribeClusterRequest(), DescribeClusterResponse, version)
    except (_Closed, ConnectionError) as problem:
        raise ProtocolError(
            "it told its versions and then closed the connection, as a listener with SASL does. This command "
            "cannot log in: name the address of a listener without SASL"
        ) from problem
    if answer.error_code:
        raise ProtocolError(f"{ErrorCode.of(answer.error_code).name}: {answer.error_message}")
    levels = {each.name: each.max_version_level for each in told.finalized_features}
    brokers = {each.broker_id: f"{each.host}:{each.port}" for each in answer.brokers}
    return Cluster(bootstrap, answer.cluster_id, levels, brokers)


def _call(connection: socket.socket, request: Message, cls: type[M], version: int) -> M:
    connection.sendall(encode_request_frame(request, version, 1, CLIENT_ID))
    size = int.from_bytes(_exactly(connection, 4), "big", signed=True)
    if not 4 <= size <= LARGEST_ANSWER_BYTES:
        raise ProtocolError(f"an answer of {size} bytes")
    return decode_response(cls, version, memoryview(_exactly(connection, size)))[1]


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 16))
        if not part:
            raise _Closed("the connection was closed where an answer was due")
        data += part
    return bytes(data)
