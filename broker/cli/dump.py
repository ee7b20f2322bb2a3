"""``barnabas dump FILE…``: what lies in a log's files, in the words of kafka-dump-log."""

from __future__ import annotations

import argparse
import sys

import msgspec

from broker.ports.files import RealFiles
from storage.dump.decoders import DECODERS, NoKey
from storage.dump.dump import CannotDump, DumpOptions, dump_file
from storage.dump.log_file import LogOptions


def run(options: argparse.Namespace) -> int:
    """Runs `barnabas dump`: prints one file after the other. Returns 1 if one of them cannot be read."""
    wanted = DumpOptions(
        log=LogOptions(
            deep=options.deep_iteration,
            print_data=options.print_data_log or options.decoder != "text",
            skip_metadata=options.skip_record_metadata,
            max_bytes=options.max_bytes,
            decoder=DECODERS[options.decoder],
        ),
        verify_index_only=options.verify_index_only,
        index_sanity_check=options.index_sanity_check,
    )
    failed = 0
    for path in options.files:
        try:
            dump_file(RealFiles(), path, wanted, print, _complain)
        except BrokenPipeError:
            sys.stderr.close()  # the reader of the output has closed the pipe
            return 0
        except (OSError, CannotDump, NoKey, msgspec.MsgspecError) as error:
            _complain(f"barnabas: {error}")
            failed = 1
    return failed


def _complain(line: str) -> None:
    print(line, file=sys.stderr)
