"""`partition.metadata`: whose log this directory is.

    version: 0
    topic_id: hEJTDJmlT-Crmk2HTt9Mxw

Two lines, the last without a newline. A topic that was deleted and made again has a new id, so a directory
that was away meanwhile is recognised as another topic's and not served.
"""

from __future__ import annotations

from typing import Final

from config.ports import Files
from protocol.values import uuid_from_text, uuid_to_text

_VERSION: Final = "0"
_HEAD: Final = f"version: {_VERSION}\ntopic_id: "
_WHOLE_LENGTH: Final = len(_HEAD) + 22


class MalformedPartitionMetadata(Exception):
    """The file is there and says something else than it should."""


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def read_partition_metadata(files: Files, path: str) -> bytes | None:
    """The topic id, 16 bytes; None if there is no such file (a log from before topic ids), or if it was cut
    off when it was written for the first time.

    Raises MalformedPartitionMetadata.
    """
    try:
        text = files.read_text(path)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MalformedPartitionMetadata(f"{path} is no text: {error}") from error
    if _HEAD.startswith(text.rstrip("\0")[: len(_HEAD)]) and len(text.rstrip("\0")) < _WHOLE_LENGTH:
        return None  # a crash came while the log was made: it has no records yet
    if len(text) == _WHOLE_LENGTH and text.startswith(_HEAD):
        fields = {"version": _VERSION, "topic_id": text[len(_HEAD) :]}  # as it is written, in one of many
    else:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != _VERSION:
        raise MalformedPartitionMetadata(f"{path} has version {fields.get('version')!r}, wanted {_VERSION!r}")
    try:
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise MalformedPartitionMetadata(f"{path} names no topic id: {text!r:.200}") from error
