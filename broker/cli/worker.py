"""``barnabas worker``: a process that a broker starts for long work; see `broker.workers`."""

from __future__ import annotations

import argparse
import os
import signal

from broker.workers.child import serve


def run(options: argparse.Namespace) -> int:
    """Serves a broker's jobs on standard input until it is closed. What a job prints goes to standard
    error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.dup(1)
    os.dup2(2, 1)
    return serve(0, replies)
