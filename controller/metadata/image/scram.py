"""SCRAM credentials: what this cluster knows of its users' passwords, by mechanism and user (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from controller.metadata.image.mappings import with_changes
from protocol.codec.message import Message
from protocol.metadata_log.security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from protocol.scram import DEFAULT_ITERATIONS, ScramCredential

__all__ = ["ScramDelta", "ScramImage", "ScramKey", "credential_record"]

ScramKey = tuple[int, str]
"""The mechanism's type, and the user's name."""


class ScramImage(msgspec.Struct, frozen=True):
    """All credentials. A user may have one for each mechanism.

    usual_iterations: by mechanism, the number of iterations that most of its users have.
    """

    by_key: Mapping[ScramKey, ScramCredential] = MappingProxyType({})
    usual_iterations: Mapping[int, int] = MappingProxyType({})

    def get(self, mechanism: int, user: str) -> ScramCredential | None:
        return self.by_key.get((mechanism, user))

    def look_up(self, mechanism: int, user: str) -> tuple[ScramCredential | None, int]:
        """The credential of a user, and how many iterations one who has none would probably have."""
        usual = self.usual_iterations.get(mechanism, DEFAULT_ITERATIONS)
        return self.by_key.get((mechanism, user)), usual

    def records(self) -> Iterator[Message]:
        """The records that make this image."""
        for mechanism, user in sorted(self.by_key):
            yield credential_record(mechanism, user, self.by_key[mechanism, user])


class ScramDelta:
    """The changes since the base image: the new credential for each key, None for a removed one."""

    def __init__(self, base: ScramImage) -> None:
        self.base = base
        self.changed: dict[ScramKey, ScramCredential | None] = {}

    def put(self, record: UserScramCredentialRecord) -> None:
        self.changed[record.mechanism, record.name] = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )

    def remove(self, record: RemoveUserScramCredentialRecord) -> None:
        self.forget((record.mechanism, record.name))

    def forget(self, key: ScramKey) -> None:
        self.changed[key] = None

    def apply(self) -> ScramImage:
        by_key = with_changes(self.base.by_key, self.changed)
        return ScramImage(MappingProxyType(by_key), MappingProxyType(_usual_iterations(by_key)))


def _usual_iterations(by_key: Mapping[ScramKey, ScramCredential]) -> dict[int, int]:
    counts: dict[int, Counter[int]] = {}
    for (mechanism, _), known in by_key.items():
        counts.setdefault(mechanism, Counter())[known.iterations] += 1
    # Of numbers that are equally frequent the larger one counts, in whatever order the users came.
    return {
        mechanism: max(found, key=lambda number: (found[number], number))
        for mechanism, found in sorted(counts.items())
    }


def credential_record(mechanism: int, user: str, credential: ScramCredential) -> UserScramCredentialRecord:
    """The record that makes this credential known to the cluster."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
