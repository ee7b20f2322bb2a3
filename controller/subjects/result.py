"""What a decision is: records for the log, and the answer for the time when they are committed; and when a
request asks for too much in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from config.limits import NAMED_PER_REQUEST
from protocol.codec.budget import count_elements
from protocol.codec.message import Message
from protocol.errors import ErrorCode

__all__ = ["ControllerError", "Decision", "names_too_much"]

R = TypeVar("R")


class Decision(msgspec.Struct, Generic[R], frozen=True):
    """records go into one batch: they are committed together or not at all. May be empty.

    is_part: the decision is too large for one turn of the loop, and Kafka does not promise that it happens
    at once. It is made again in the next turn, on what the image is then; the response of a part is never
    sent.
    """

    records: Sequence[Message]
    response: R
    is_part: bool = False


class ControllerError(Exception):
    """An answer for which Kafka has a code. Raised inside a subject, turned into the response at its edge."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.message if message is None else message
        super().__init__(self.message)


def names_too_much(request: Message) -> bool:
    """Whether it names more topics, partitions, resources and configs than it may. Numbers of replicas do not
    count: they belong to a partition that does."""
    return count_elements(request) > NAMED_PER_REQUEST
