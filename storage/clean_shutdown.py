"""`.kafka_cleanshutdown`: the note that the last process left in order.

    {"version":0,"brokerEpoch":17}

Written after everything else at the end of a shutdown, and removed at the start before anything is
written. If it is there, every log is as its checkpoints say and no file needs a second look. The broker
epoch lets the controller see whether this very life of the broker ended well (ELR, KIP-966); -1 where it
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
    """The broker epoch of the last life if it ended well, None if it did not.

    A file that is there but cannot be read still means a clean end, of an unknown epoch (older versions of
    Kafka wrote an empty one).
    """
    try:
        content = json.loads(files.read_bytes(path))
        return int(content["brokerEpoch"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH
