"""How the key and the value of a record are printed.

A decoder returns two texts, each None if there is nothing to print. Records of the coordinators and of the
metadata log are printed as JSON, as Kafka prints them, but without the secrets of brokers' configs. If a
record cannot be read the line says so, and the dump goes on.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from struct import Struct
from types import MappingProxyType
from typing import Final

from config.catalogue import broker_definition
from protocol.codec.compiler import decode
from protocol.codec.message import Message
from protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.errors import ProtocolError
from protocol.group_log.classic_groups import GroupMetadataValue
from protocol.json_form import JsonValue, json_form
from protocol.metadata_log.cluster import ConfigRecord
from protocol.metadata_log.frame import decode_versioned_record
from protocol.metadata_log.security import UserScramCredentialRecord
from protocol.record_types import (
    LogRecord,
    MetadataRecordType,
    group_log_record,
    share_log_record,
    transaction_log_record,
)
from protocol.records.reader import Record

Shown = tuple[str | None, str | None]
Decoder = Callable[[Record], Shown]

_NUMBER: Final = Struct(">h")
REDACTED: Final = "(redacted)"
_BROKER: Final = 4
"""The kind of resource that a broker's configs belong to."""
CONSUMER_PROTOCOL: Final = "consumer"
_CONSUMER_PROTOCOL: Final[tuple[tuple[str, type[Message]], ...]] = (
    ("subscription", ConsumerProtocolSubscription),
    ("assignment", ConsumerProtocolAssignment),
)


_KEPT_SECRET: Final = ("salt", "storedKey", "serverKey")
"""What a SCRAM credential consists of: with it a password can be guessed without asking a broker."""


class NoKey(Exception):
    """A record has no key where it must have one. The dump ends there, as Kafka's does."""


def as_text(record: Record) -> Shown:
    """Decodes key and value as UTF-8; bytes that are not valid become replacement characters."""
    key = None if record.key is None else record.key.decode("utf-8", "replace")
    return key, None if record.value is None else record.value.decode("utf-8", "replace")


def as_cluster_metadata(record: Record) -> Shown:
    """Decodes a record of the metadata log. Its key is always null."""
    if record.value is None:
        return None, None
    try:
        message, version = decode_versioned_record(record.value)
    except ProtocolError as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    name = MetadataRecordType(message.declaration.key or 0).name
    form = json_form(message, version)
    if isinstance(message, UserScramCredentialRecord):
        form |= dict.fromkeys(_KEPT_SECRET, REDACTED)
    elif isinstance(message, ConfigRecord) and message.value and _is_secret(message):
        form["value"] = REDACTED
    return None, _json({"type": name, "version": version, "data": form})


def _is_secret(record: ConfigRecord) -> bool:
    """Whether the value of a config may be a password or a key; that of a config which nobody has defined may
    be one too."""
    if record.resource_type != _BROKER:
        return False
    definition = broker_definition(record.name)
    return definition is None or definition.sensitive


def coordinator_decoder(find: Callable[[int], LogRecord]) -> Decoder:
    """Makes the decoder for a topic of a coordinator. Keys and values begin with an int16: the type of the
    record, and its version."""

    def show(record: Record) -> Shown:
        if record.key is None:
            raise NoKey(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        error_at = f"Error at offset {record.offset}, skipping."
        if len(record.key) < _NUMBER.size:
            return f"{error_at} Could not read version from key's buffer.", None
        (record_type,) = _NUMBER.unpack_from(record.key)
        try:
            found = find(record_type)
        except ProtocolError:
            return f"Unknown record type {record_type} at offset {record.offset}, skipping.", None
        try:
            key = json_form(decode(found.key, 0, record.key[_NUMBER.size :]), 0)
            value = _coordinator_value(found.value, record.value)
        except ProtocolError as error:
            return f"{error_at} {error}", None
        return _json({"type": str(record_type), "data": key}), value

    return show


def _coordinator_value(cls: type[Message], value: bytes | None) -> str:
    if value is None:
        return "<DELETE>"
    if len(value) < _NUMBER.size:
        raise ProtocolError("Could not read version from value's buffer.")
    (version,) = _NUMBER.unpack_from(value)
    if not cls.declaration.versions.covers(version):
        raise ProtocolError(f"Unknown version {version} of {cls.__name__}.")
    message = decode(cls, version, value[_NUMBER.size :])
    form = json_form(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == CONSUMER_PROTOCOL:
        form["members"] = [_with_protocol(member) for member in _objects(form["members"])]
    return _json({"version": str(version), "data": form})


def _objects(form: JsonValue) -> list[dict[str, JsonValue]]:
    return form if isinstance(form, list) else []


def _with_protocol(member: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Adds the decoded subscription and assignment of each consumer of a group. Bytes that cannot be decoded
    are left as they are."""
    shown = dict(member)
    for name, cls in _CONSUMER_PROTOCOL:
        data = base64.b64decode(str(member[name]))
        version = int.from_bytes(data[: _NUMBER.size], "big")
        try:
            shown[name] = json_form(decode(cls, version, data[_NUMBER.size :]), version)
        except ProtocolError:
            continue
    return shown


def _json(form: JsonValue) -> str:
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False)


DECODERS: Final = MappingProxyType(
    {
        "text": as_text,
        "offsets": coordinator_decoder(group_log_record),
        "transaction-log": coordinator_decoder(transaction_log_record),
        "share-group-state": coordinator_decoder(share_log_record),
        "cluster-metadata": as_cluster_metadata,
    }
)
"""The decoders by the name of the option that selects them."""

__all__ = ["DECODERS", "Decoder", "NoKey", "Shown", "as_text"]
