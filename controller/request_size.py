"""What a request asks the controller to decide in one step, and when that is too much."""

from __future__ import annotations

from config.limits import NAMED_PER_REQUEST
from protocol.codec.budget import count_elements
from protocol.codec.message import Message

__all__ = ["names_too_much"]


def names_too_much(request: Message) -> bool:
    """Whether it names more topics, partitions, resources and configs than it may. Numbers of replicas do not
    count: they belong to a partition that does."""
    return count_elements(request) > NAMED_PER_REQUEST
