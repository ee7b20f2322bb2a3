"""What a decision of the controller is: records for the log, and the response that is sent when they are
committed. And the check whether a request asks for too much."""

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
    """The records go into one batch: they are committed together or not at all. There may be none.

    is_part: the decision is too large for one turn of the loop, and Kafka does not promise that it happens at
    once. It is made again in the next turn, by the image of that time. The response of a part is never sent.
    """

    records: Sequence[Message]
    response: R
    is_part: bool = False


class ControllerError(Exception):
    """An error for which Kafka has a code. It is raised inside a subject, and becomes the response at the
    subject's edge."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.message if message is None else message
        super().__init__(self.message)


def names_too_much(request: Message) -> bool:
    """Whether a request names more topics, partitions, resources and configs than it may. Ids of replicas do
    not count, because they belong to a partition that does."""
    return count_elements(request) > NAMED_PER_REQUEST
