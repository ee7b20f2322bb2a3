"""``barnabas start``: from a command line to a running node, and from its end to an exit code."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Final

from broker.cli.configuration import load_configuration
from broker.ports.clock import SystemClock
from broker.ports.files import RealFiles
from broker.ports.random_source import SystemRandomSource
from broker.process.garbage_collector import hold_collector
from broker.process.logging_setup import set_up_logging
from config.broker_config import BrokerConfig
from config.errors import ConfigError
from controller.format import FormatRefused, Formatter, formatted_directories
from controller.metadata.random_ids import random_uuid
from protocol.values import uuid_to_text
from storage.meta_properties import MalformedMetaProperties

_log = logging.getLogger("barnabas.start")

REFUSED: Final = 1


class StartRefused(Exception):
    """The node cannot be started as it was told to; the text is one line for the user."""


def run(options: argparse.Namespace) -> int:
    """Runs `barnabas start`: starts the node and serves until it is told to stop."""
    hold_collector()
    try:
        loaded = load_configuration(options.file, options.override)
        set_up_logging(loaded.config.text("barnabas.log.format"))
        for warning in loaded.warnings:
            _log.warning("%s", warning)
        may_format = options.format or options.file is None
        cluster_id = identify(loaded.config, may_format=may_format, new_cluster_id=options.cluster_id)
    except (ConfigError, StartRefused, FormatRefused, MalformedMetaProperties) as refusal:
        print(f"barnabas: {refusal}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"barnabas: the storage directories cannot be used: {error}", file=sys.stderr)
        return REFUSED
    from broker.process.run import run_node

    return run_node(loaded.config, cluster_id, until_process_ends=options.until_process_ends)


def identify(config: BrokerConfig, *, may_format: bool, new_cluster_id: str | None = None) -> str:
    """The cluster id in the node's directories; formats empty ones first, if that is allowed.

    new_cluster_id: for directories of which none is formatted yet; a random one if there is none.
    """
    files = RealFiles()
    directories = list(dict.fromkeys((*config.log_directories, config.metadata_log_directory)))
    found = formatted_directories(files, directories)
    known = [properties for properties in found.values() if properties is not None]
    unformatted = [path for path, properties in found.items() if properties is None]
    if not unformatted:
        return known[0].cluster_id
    if not may_format:
        raise StartRefused(
            f"No meta.properties found in {unformatted[0]}. Format the directory first "
            "(barnabas storage format), or start with --format"
        )
    for path in unformatted:
        if files.exists(path) and files.listdir(path):
            raise StartRefused(
                f"{path} is not empty and has no meta.properties: it is not a Kafka data directory, or it "
                "was damaged. Name another log.dirs, or empty it"
            )
    if known:
        cluster_id = known[0].cluster_id
    else:
        cluster_id = new_cluster_id or uuid_to_text(random_uuid(SystemRandomSource()))
    formatter = Formatter(
        cluster_id, config, files, SystemClock(), SystemRandomSource(), ignore_formatted=bool(known)
    )
    formatter.run(sys.stderr)
    return cluster_id
