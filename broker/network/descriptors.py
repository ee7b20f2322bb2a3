"""How many files and sockets the process may have open, and how many of them connections may take."""

from __future__ import annotations

import logging
import resource

from config.limits import RESERVED_DESCRIPTORS

_log = logging.getLogger("barnabas.network")


def raise_descriptor_limit() -> int:
    """Raises the process's soft limit of open files to its hard limit, as far as the system permits, and
    returns the limit that is now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        _log.warning("The limit of open files stays at %d: %s", soft, error)
        return soft
    return hard


def descriptor_limit() -> int:
    """The number of files and sockets that the process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 - 1 if limit == resource.RLIM_INFINITY else limit


def highest_connection_descriptor(limit: int | None = None) -> int:
    """The highest descriptor number that a connection may have, for a process that may open `limit` files.

    The kernel always gives out the lowest free number, so a connection with a higher one means that the
    reserve for log files is being used up.
    """
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 2**31 - 1
    return limit - min(RESERVED_DESCRIPTORS, limit // 4)
