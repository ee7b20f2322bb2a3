"""The rules that an authorizer has found, by client and question, within a bound of memory.

Whoever asks for many topics, or as a follower for many partitions, asks the same again with each request. The
rules are kept by client first, so that its principal and its host are kept once and not with each question.

A client that asks more than its share begins anew, and only it: what others were told stays. When all shares
together take more than there is, the clients that came first go. What has a long name, and a client with a
long principal, is not remembered.
"""

from __future__ import annotations

from enum import Enum
from sys import getsizeof
from typing import Final

from config.limits import MIB, TOPIC_NAME_LENGTH
from controller.metadata.image.acls import Acl

__all__ = ["KEPT_BYTES", "KEPT_BYTES_OF_CLIENT", "RememberedRules"]

KEPT_BYTES: Final = 6 * MIB
KEPT_BYTES_OF_CLIENT: Final = 3 * MIB
"""Some ten thousand topics, and a few times what a client asks for in one request."""

PRINCIPAL_LENGTH: Final = 256
_QUESTION_BYTES: Final = 200
"""A question and its place, without its name."""
_CLIENT_BYTES: Final = 700
"""A client and its place, without its principal and its first question."""

Question = tuple[int, int, str]
"""Operation, resource type and name."""


class _Client:
    """What one client was told."""

    __slots__ = ("rules", "size_bytes")

    def __init__(self) -> None:
        self.rules: dict[Question, Acl | Enum] = {}
        self.size_bytes = 0


class RememberedRules:
    """The rules that one set of entries has led to."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], _Client] = {}
        self.size_bytes = 0
        """What is kept takes, about."""

    def find(self, principal: str, host: str, question: Question) -> Acl | Enum | None:
        """The rule that was kept, or None."""
        client = self._clients.get((principal, host))
        return None if client is None else client.rules.get(question)

    def keep(self, principal: str, host: str, question: Question, rule: Acl | Enum) -> None:
        """Remembers a rule that `find` did not know."""
        name = question[2]
        if len(name) > TOPIC_NAME_LENGTH or len(principal) > PRINCIPAL_LENGTH:
            return
        client = self._clients.get((principal, host))
        if client is None:
            client = self._clients[principal, host] = _Client()
            self._grow(client, _CLIENT_BYTES + getsizeof(principal) + getsizeof(host))
        elif client.size_bytes >= KEPT_BYTES_OF_CLIENT:
            of_client = _CLIENT_BYTES + getsizeof(principal) + getsizeof(host)
            client.rules = {}
            self._grow(client, of_client - client.size_bytes)
        client.rules[question] = rule
        self._grow(client, _QUESTION_BYTES + getsizeof(name))
        while self.size_bytes > KEPT_BYTES:
            first = next(iter(self._clients))
            self.size_bytes -= self._clients.pop(first).size_bytes

    def _grow(self, client: _Client, size_bytes: int) -> None:
        client.size_bytes += size_bytes
        self.size_bytes += size_bytes
