"""What can be typed after ``barnabas``, and the help that a newcomer reads.

A command is a function that takes the parsed options and returns the exit code;
its module is imported when it is called.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

VERSION: Final = "0.1.0"
KAFKA_VERSION: Final = "4.3.1"

_DESCRIPTION: Final = """\
Barnabas is a Kafka-compatible broker. Existing Kafka clients and tools use it
as they would use Apache Kafka 4.3; its files are Kafka's files.
"""

_EXAMPLES: Final = """\
examples:
  barnabas start                                  one node on 127.0.0.1:9092, data in ./data
  barnabas start server.properties                as your file says
  barnabas start --nodes 3                        a cluster of three nodes on this machine
  barnabas start --override log.dirs=/srv/kafka   any of Kafka's properties
  barnabas config check server.properties         what of your file Barnabas honours
  barnabas storage format -t $(barnabas storage random-uuid) -c server.properties
"""

Command = Callable[[argparse.Namespace], int]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="barnabas",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"barnabas {VERSION} (speaks the protocol of Apache Kafka {KAFKA_VERSION}; Python {_python()})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_start(commands)
    _add_storage(commands)
    _add_config(commands)
    _add_dump(commands)
    _add_log(commands)
    _add_codec(commands)
    _add_simulate(commands)
    _add_worker(commands)
    return parser


def _python() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])


def _command(module: str, function: str) -> Command:
    """The function that runs a command. The command's module is imported only when it is called."""

    def run(options: argparse.Namespace) -> int:
        code: int = getattr(import_module(f"broker.cli.{module}"), function)(options)
        return code

    return run


def _add_start(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    start = commands.add_parser(
        "start",
        help="run the broker in the foreground",
        description="Run the broker in the foreground until SIGTERM or SIGINT. Without a file: one node on "
        "127.0.0.1:9092 with its data in ./data, and an empty directory is formatted on first use.",
    )
    start.add_argument("file", nargs="?", help="server.properties, or YAML of the same names")
    start.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property that goes before the file and the environment; may be given many times",
    )
    start.add_argument(
        "--format", action="store_true", help="format an unformatted directory first, with a file too"
    )
    start.add_argument(
        "--cluster-id", metavar="ID", help="the id of a cluster that is formatted now (default: a random one)"
    )
    start.add_argument(
        "--until-process-ends",
        type=int,
        metavar="PID",
        help="stop, as SIGTERM does, when this process ends: no broker outlives its test or notebook",
    )
    start.add_argument(
        "--nodes",
        type=int,
        metavar="N",
        help="a cluster of N nodes on this host, each a process of its own; node 1 has the usual ports, each "
        "further node the next ones. Data in log.dirs/node-1, …",
    )
    start.add_argument(
        "--prepare",
        action="store_true",
        help="with --nodes: write their files and format their directories, and start nothing",
    )
    start.set_defaults(run=_command("start", "run"))


def _add_storage(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    storage = commands.add_parser(
        "storage", help="prepare or inspect a node's directories, as kafka-storage does"
    )
    verbs = storage.add_subparsers(title="verbs", metavar="VERB", required=True)

    verbs.add_parser("random-uuid", help="print a new cluster id").set_defaults(
        run=_command("storage", "random_uuid")
    )

    info = verbs.add_parser("info", help="say what lies in the log directories")
    info.add_argument("-c", "--config", required=True, metavar="FILE", help="server.properties, or YAML")
    info.set_defaults(run=_command("storage", "info"))

    format_ = verbs.add_parser("format", help="write meta.properties and the first metadata")
    format_.add_argument("-c", "--config", required=True, metavar="FILE", help="server.properties, or YAML")
    format_.add_argument("-t", "--cluster-id", required=True, metavar="ID", help="see random-uuid")
    format_.add_argument(
        "--standalone",
        "-s",
        action="store_true",
        help="a quorum of this one controller (the default where the one bootstrap server is this node)",
    )
    format_.add_argument(
        "--initial-controllers",
        "-I",
        metavar="ID@HOST:PORT:DIRECTORY,…",
        help="the first voters of a new quorum; the same for all of its nodes",
    )
    format_.add_argument(
        "--no-initial-controllers",
        "-N",
        action="store_true",
        help="a node that finds its quorum by controller.quorum.bootstrap.servers, and may join it",
    )
    format_.add_argument(
        "--ignore-formatted", "-g", action="store_true", help="leave formatted directories as they are"
    )
    format_.add_argument(
        "--release-version", "-r", metavar="VERSION", help="the release whose feature levels to begin with"
    )
    format_.add_argument(
        "--feature",
        "-f",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="one feature's level to begin with",
    )
    format_.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        metavar="MECHANISM=[name=USER,password=SECRET]",
        help="a SCRAM credential to begin with; also iterations, salt and saltedpassword (base 64)",
    )
    format_.set_defaults(run=_command("storage", "format"))


def _add_config(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    config = commands.add_parser("config", help="look at configuration files")
    verbs = config.add_subparsers(title="verbs", metavar="VERB", required=True)
    check = verbs.add_parser(
        "check",
        help="per key: honoured, not used yet, ignored or refused",
        description="Says what this release does with each key of a file. With --cluster: what keeps the "
        "node out of that cluster, all at once; without a file only what the release itself lacks.",
    )
    check.add_argument("file", nargs="?", help="server.properties, or YAML of the same names")
    check.add_argument(
        "--cluster", metavar="HOST:PORT", help="a broker of the cluster that the node would join"
    )
    check.set_defaults(run=_command("config_check", "run"))


def _add_dump(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    dump = commands.add_parser(
        "dump",
        help="print what lies in a log's files, as kafka-dump-log does",
        description="Reads .log, .checkpoint, .index, .timeindex, .txnindex and .snapshot files, of a broker "
        "that runs too. Indexes are held against the log beside them.",
    )
    dump.add_argument("files", nargs="+", metavar="FILE")
    dump.add_argument("--deep-iteration", action="store_true", help="a line for each record")
    dump.add_argument("--print-data-log", action="store_true", help="with the records' keys and values")
    dump.add_argument(
        "--skip-record-metadata", action="store_true", help="only keys and values; no control records"
    )
    for name, what in (
        ("offsets", "__consumer_offsets"),
        ("transaction-log", "__transaction_state"),
        ("share-group-state", "__share_group_state"),
        ("cluster-metadata", "the metadata log"),
    ):
        dump.add_argument(
            f"--{name}-decoder", dest="decoder", action="store_const", const=name, default="text",
            help=f"show records of {what} as JSON",
        )  # fmt: skip
    dump.add_argument("--max-bytes", type=int, default=1 << 62, metavar="N", help="stop after so many bytes")
    dump.add_argument("--verify-index-only", action="store_true", help="print only what does not fit")
    dump.add_argument("--index-sanity-check", action="store_true", help="look only at an index itself")
    dump.set_defaults(run=_command("dump", "run"))


def _add_log(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    log = commands.add_parser("log", help="repair logs that a disk has damaged")
    verbs = log.add_subparsers(title="verbs", metavar="VERB", required=True)
    repair = verbs.add_parser(
        "repair",
        help="cut damaged bytes out of a partition's log",
        description="Reads every batch of a partition's log. What is no valid batch is cut out and kept in a "
        "file beside the segment; the batches behind it keep their offsets. Without --yes it only says what "
        "it would do. The broker must be stopped.",
    )
    repair.add_argument(
        "directories", nargs="+", metavar="DIRECTORY", help="of a partition, or a log directory with many"
    )
    repair.add_argument("--yes", action="store_true", help="do it")
    repair.set_defaults(run=_command("log_repair", "run"))


def _add_codec(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    codec = commands.add_parser("codec", help="look into the protocol's codec")
    verbs = codec.add_subparsers(title="verbs", metavar="VERB", required=True)
    show = verbs.add_parser(
        "show", help="print the code that reads and writes one message", description="Example: Fetch 17"
    )
    show.add_argument("message", help="an API (Fetch) or a message (FetchRequest, TopicRecord)")
    show.add_argument("version", type=int)
    show.set_defaults(run=_command("codec", "show"))


def _add_worker(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    worker = commands.add_parser("worker")  # no help text, because only the broker starts it
    worker.set_defaults(run=_command("worker", "run"))


def _add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    simulate = commands.add_parser(
        "simulate",
        help="run a quorum of controllers, or a whole cluster, in a simulated world under one seed",
        description="A whole quorum, or a whole cluster with its clients, in this process, with simulated "
        "clocks, network and disks that do what real ones do on bad days. Every rule is checked after every "
        "event; a failure is shrunk to a short run. The same seed is the same run.",
    )
    simulate.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed (1)")
    simulate.add_argument(
        "--seeds", type=int, default=1, metavar="COUNT", help="so many seeds, one by one (1)"
    )
    simulate.add_argument(
        "--nodes",
        type=int,
        choices=range(1, 10),
        metavar="COUNT",
        help="voters, or nodes of a cluster, at first; else the seed says",
    )
    simulate.add_argument(
        "--events", type=int, default=100_000, metavar="COUNT", help="at least so many for each seed (100000)"
    )
    simulate.add_argument(
        "--real-driver",
        action="store_true",
        help="run the controllers' own driver and disk code, on files in memory, in place of their models",
    )
    simulate.add_argument("--trace", action="store_true", help="print the transcript of all that happens")
    _add_simulate_cluster(simulate)
    simulate.add_argument("--coverage", action="store_true", help="print what was met, and how often")
    quorum = _command("simulate", "simulate")
    cluster = _command("simulate_cluster", "simulate_cluster")
    simulate.set_defaults(
        run=lambda options: (cluster if options.cluster or options.replay else quorum)(options)
    )


def _add_simulate_cluster(simulate: argparse.ArgumentParser) -> None:
    cluster = simulate.add_argument_group("whole clusters")
    cluster.add_argument(
        "--cluster", action="store_true", help="whole nodes and their clients, from the wire to the disk"
    )
    cluster.add_argument(
        "--minutes", type=float, metavar="M", help="simulated minutes of trouble for each seed (10)"
    )
    cluster.add_argument("--hours", type=float, metavar="H", help="the same in hours")
    cluster.add_argument("--replay", metavar="FILE", help="play the run in this file, not a seed's own")
    cluster.add_argument("--shrink", action="store_true", help="make a run that fails as small as it can be")
    cluster.add_argument(
        "--history", metavar="FILE", help="write what the clients did and were told, for the checker"
    )
