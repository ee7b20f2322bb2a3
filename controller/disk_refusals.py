"""What the disk refuses the metadata log, as one sentence that ends the node.

Without its log a replica cannot keep its word: no call of it may go on as if nothing had happened, and a user
must read which directory it was and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from controller.metadata_log import MetadataLogFailed
from storage.errors import LogStorageError

__all__ = ["named_refusals", "raise_if_refused"]


@contextmanager
def named_refusals(directory: str) -> Iterator[None]:
    """Turns what the disk raises within into MetadataLogFailed. directory: of the metadata log."""
    try:
        yield
    except (OSError, LogStorageError) as error:
        raise MetadataLogFailed(
            f"The metadata log in {directory} cannot be written: {error}. Without it this node cannot "
            "keep its word, and ends. Make room on the disk or replace it, then start the node again."
        ) from error


def raise_if_refused(directory: str, outcome: object) -> None:
    """For what a helper thread came back with. Raises MetadataLogFailed, and what is no refusal as it is."""
    if isinstance(outcome, BaseException):
        with named_refusals(directory):
            raise outcome
