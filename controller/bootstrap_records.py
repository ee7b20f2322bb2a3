"""What `storage format` left for the first life of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from config.broker_config import BrokerConfig
from config.ports import Files
from controller.metadata.snapshots import BOOTSTRAP_FILE, read_snapshot
from protocol.codec.message import Message

__all__ = ["read_bootstrap_records"]


def read_bootstrap_records(config: BrokerConfig, files: Files) -> Sequence[Message]:
    """The records with which the first controller begins; nothing if the file is not there."""
    path = f"{config.metadata_log_directory}/{BOOTSTRAP_FILE}"
    return read_snapshot(files, path).records if files.exists(path) else ()
