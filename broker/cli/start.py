"""``barnabas start``: from a command line to a running node, and from its end to an exit code."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Final

from broker.cli.configuration import load_configuration
from broker.cli.storage import StartRefused, identify
from broker.process.garbage_collector import hold_collector
from broker.process.logging_setup import set_up_logging
from config.errors import ConfigError
from storage.meta_properties import MalformedMetaProperties

_log = logging.getLogger("barnabas.start")

REFUSED: Final = 1


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
    except (ConfigError, StartRefused, MalformedMetaProperties) as refusal:
        print(f"barnabas: {refusal}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"barnabas: the storage directories cannot be used: {error}", file=sys.stderr)
        return REFUSED
    from broker.process.run import run_node

    return run_node(loaded.config, cluster_id, until_process_ends=options.until_process_ends)
