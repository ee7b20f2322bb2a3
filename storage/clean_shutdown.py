"""`.kafka_cleanshutdown`: the note that the last process has shut down in order.

    {"version":0,"brokerEpoch":17}

It is written after everything else at the end of a shutdown, and removed at the start before anything is
written. If it is there, every log is as its checkpoints say, and no file need be checked. By the broker epoch
the controller knows whether the broker has ended in order since it registered last (ELR, KIP-966); -1 if it
was not known.
"""

from __future__ import annotations

import json
from typing import Final

from config.ports import Files

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH: Final = -1


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_clean_shutdown(files: Files, path: str) -> int | None:
    """The broker epoch of the last process if it has shut down in order, None if it has not.

    A file that cannot be read still means an orderly shutdown, of an unknown epoch (older versions of Kafka
    wrote an empty one).
    """
    try:
        content = json.loads(files.read_bytes(path))
        return int(content["brokerEpoch"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH
