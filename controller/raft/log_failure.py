"""The failure of the disk under the metadata log, as one sentence that ends the node.

A replica that cannot write its log cannot keep what it has promised to the quorum, and one that cannot read
it falls behind what is committed. No call may go on as if nothing had happened, and the operator must read
which directory failed and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from protocol.errors import EndsProcess
from storage.errors import LogStorageError

__all__ = ["MetadataLogFailed", "named_refusals", "raise_if_refused"]


class MetadataLogFailed(EndsProcess):
    """The disk refuses to store what the quorum must remember. The replica cannot keep its promises any more,
    so its process ends. The text names the directory, the fault and the remedy."""


@contextmanager
def named_refusals(directory: str, what_for: str = "written") -> Iterator[None]:
    """Turns the errors that the disk raises in this block into MetadataLogFailed. directory: that of the
    metadata log. what_for: what it cannot be: written or read."""
    try:
        yield
    except (OSError, LogStorageError) as error:
        raise MetadataLogFailed(
            f"The metadata log in {directory} cannot be {what_for}: {error}. Without it this node cannot "
            "keep its word, and ends. Make room on the disk or replace it, then start the node again."
        ) from error


def raise_if_refused(directory: str, outcome: object) -> None:
    """Looks at the result of a helper thread. Raises MetadataLogFailed for a refusal of the disk, and any
    other error unchanged."""
    if isinstance(outcome, BaseException):
        with named_refusals(directory):
            raise outcome
