"""`meta.properties`: which node of which cluster a log directory belongs to.

    #
    #Sat Nov 21 08:26:11 UTC 2026
    cluster.id=bWVhc3VyZW9mYWxsdGhpbg
    directory.id=hEJTDJmlT-Crmk2HTt9Mxw
    node.id=1
    version=1

Written when a directory is formatted, so that a disk from another machine is never taken for ours. It is a
Java properties file; version 0 (before KRaft) called the node `broker.id`. The directory's id (KIP-858)
tells several log directories of one node apart.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import msgspec

from config.errors import ConfigError
from config.ports import Files
from config.properties import read_properties
from protocol.values import uuid_from_text, uuid_to_text

META_PROPERTIES_FILE: Final = "meta.properties"

_VERSION: Final = "1"
_ESCAPES: Final = MappingProxyType(
    str.maketrans(
        {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f"} | {each: f"\\{each}" for each in "\\:=#!"}
    )
)


class MalformedMetaProperties(Exception):
    """The file does not say what it must. The text names the file, the key and the value."""


class MetaProperties(msgspec.Struct, frozen=True):
    """The file's content. `cluster_id` is any text. `directory_id` is None in files from before KIP-858."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None = None


def encode_meta_properties(properties: MetaProperties, now_ms: int) -> bytes:
    """Encodes the file as Java does, with the line of the date."""
    date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    values = {"cluster.id": properties.cluster_id, "node.id": str(properties.node_id), "version": _VERSION}
    if properties.directory_id is not None:
        values["directory.id"] = uuid_to_text(properties.directory_id)
    lines = [f"{key}={_escaped(values[key])}" for key in sorted(values)]
    return "\n".join(["#", f"#{date}", *lines, ""]).encode("ascii")


def read_meta_properties(files: Files, path: str) -> MetaProperties | None:
    """Reads the file. None if there is none, because the directory is not formatted.

    Raises MalformedMetaProperties.
    """
    try:
        text = files.read_bytes(path).decode("latin-1")
    except FileNotFoundError:
        return None
    try:
        values = {setting.name: setting.text for setting in read_properties(text, path)}
    except ConfigError as error:
        raise MalformedMetaProperties(str(error)) from error
    version = values.get("version", "0")
    if version not in ("0", _VERSION):
        raise MalformedMetaProperties(f"{path} has version {version!r}; known are 0 and {_VERSION}")
    node_key = "node.id" if version == _VERSION else "broker.id"
    try:
        directory = values.get("directory.id")
        return MetaProperties(
            values["cluster.id"],
            int(values[node_key]),
            uuid_from_text(directory) if directory else None,
        )
    except KeyError as error:
        raise MalformedMetaProperties(f"{path} lacks {error.args[0]}") from None
    except ValueError as error:
        raise MalformedMetaProperties(f"{path} has a bad value: {error}") from error


def _escaped(value: str) -> str:
    """The value as Java writes it. Letters beyond ASCII become escapes: Kafka writes them as UTF-8, but reads
    ISO 8859-1."""
    escaped = value.translate(_ESCAPES)
    if escaped.startswith(" "):
        escaped = f"\\{escaped}"
    return "".join(each if " " <= each <= "~" else _as_escapes(each) for each in escaped)


def _as_escapes(letter: str) -> str:
    return "".join(f"\\u{unit}" for unit in letter.encode("utf-16-be").hex(" ", 2).split())
