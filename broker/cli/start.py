"""``barnabas start``: from a command line to a running node, and from its end to an exit code."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
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
    """Runs `barnabas start`: starts the node, or those of --nodes, and serves until it is told to stop."""
    prepare = _several_nodes if options.nodes is not None or options.prepare else _one_node
    try:
        serve = prepare(options)
    except (ConfigError, StartRefused, MalformedMetaProperties) as refusal:
        print(f"barnabas: {refusal}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"barnabas: the storage directories cannot be used: {error}", file=sys.stderr)
        return REFUSED
    return serve()


def _one_node(options: argparse.Namespace) -> Callable[[], int]:
    """Checks the configuration and the directories. Returns what runs the node and gives its exit code."""
    hold_collector()
    loaded = load_configuration(options.file, options.override)
    set_up_logging(loaded.config.text("barnabas.log.format"))
    for warning in loaded.warnings:
        _log.warning("%s", warning)
    may_format = options.format or options.file is None
    cluster_id = identify(loaded.config, may_format=may_format, new_cluster_id=options.cluster_id)

    def serve() -> int:
        from broker.process.run import run_node

        return run_node(loaded.config, cluster_id, until_process_ends=options.until_process_ends)

    return serve


def _several_nodes(options: argparse.Namespace) -> Callable[[], int]:
    """Writes the files of the nodes and formats their directories. Returns what runs the nodes until it is
    told to stop, or, with --prepare, what prints the names of the files."""
    from broker.cli.several_nodes import prepare

    if options.nodes is None:
        raise StartRefused("--prepare writes the files of several nodes: give --nodes too")
    if options.file is not None:
        raise StartRefused(
            f"--nodes makes a cluster of its own, and {options.file} describes one node: leave one of "
            "them out. --override gives a setting to all nodes"
        )
    loaded = load_configuration(None, options.override)
    set_up_logging(loaded.config.text("barnabas.log.format"))
    files = prepare(options.nodes, loaded.config, options.cluster_id)

    def serve() -> int:
        if options.prepare:
            for file in files:
                print(file)
            return 0
        from broker.process.node_processes import run_nodes

        return run_nodes(files, until_process_ends=options.until_process_ends)

    return serve
