"""SCRAM credentials are set and deleted (KIP-554).

A request may name each user once, whatever the mechanisms. A user who is named twice is refused, and so are
changes that came before in the same request; what is right for other users is done all the same.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.scram import credential_record
from controller.metadata.metadata_version import SCRAM_LEVEL
from controller.subjects.result import ControllerError, Decision
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from protocol.metadata_log.security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from protocol.scram import MAX_ITERATIONS, MECHANISM_BY_TYPE, MIN_ITERATIONS, new_credential

__all__ = ["alter_user_scram_credentials"]

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion

_TWICE: Final = "A user credential cannot be altered twice in the same request"
_NO_SCRAM: Final = "The current metadata.version does not support SCRAM"


def alter_user_scram_credentials(
    image: ClusterImage, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """The results are in Kafka's order as far as it has one: deletions, upsertions, and what is refused."""
    deletions: dict[str, Deletion] = {}
    upsertions: dict[str, Upsertion] = {}
    refused: dict[str, ControllerError] = {}
    changes: list[Deletion | Upsertion] = [*request.deletions, *request.upsertions]
    for change in changes:
        if change.name in refused:
            continue
        has_come = deletions.pop(change.name, None) or upsertions.pop(change.name, None)
        try:
            if has_come:
                raise ControllerError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            _check(image, change)
        except ControllerError as fault:
            refused[change.name] = fault
            continue
        if isinstance(change, Deletion):
            deletions[change.name] = change
        else:
            upsertions[change.name] = change
    records: list[Message] = [
        RemoveUserScramCredentialRecord(name=each.name, mechanism=each.mechanism)
        for each in deletions.values()
    ]
    records += [_record_of(each) for each in upsertions.values()]
    result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    results = [result(user=name, error_message=None) for name in (*deletions, *upsertions)]
    for name, refusal in refused.items():
        # Where Java throws while it makes the keys, Kafka has no sentence.
        message = None if refusal.code == ErrorCode.UNKNOWN_SERVER_ERROR else refusal.message
        results.append(result(name, refusal.code, message))
    return Decision(records, AlterUserScramCredentialsResponse(results=results))


def _check(image: ClusterImage, change: Deletion | Upsertion) -> None:
    """Raises ControllerError."""
    if image.features.metadata_version < SCRAM_LEVEL:
        raise ControllerError(ErrorCode.UNSUPPORTED_VERSION, _NO_SCRAM)
    if not change.name:
        raise ControllerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in MECHANISM_BY_TYPE:
        raise ControllerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        if image.scram.get(change.mechanism, change.name) is None:
            sentence = "Attempt to delete a user credential that does not exist"
            raise ControllerError(ErrorCode.RESOURCE_NOT_FOUND, sentence)
    elif change.iterations < MIN_ITERATIONS:
        raise ControllerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    elif change.iterations > MAX_ITERATIONS:
        raise ControllerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    elif not change.salted_password:
        # A key for HMAC may not be empty in Java.
        raise ControllerError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _record_of(change: Upsertion) -> UserScramCredentialRecord:
    mechanism = MECHANISM_BY_TYPE[change.mechanism]
    credential = new_credential(mechanism, change.salted_password, change.salt, change.iterations)
    return credential_record(change.mechanism, change.name, credential)
