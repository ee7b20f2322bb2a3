"""What DescribeUserScramCredentials answers (KIP-554), on the listeners of brokers and of controllers alike:
each tells what its own image holds.

A user who is named twice is DUPLICATE_RESOURCE, one without credentials RESOURCE_NOT_FOUND. Needs DESCRIBE on
the cluster.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from controller.metadata.image.scram import ScramImage
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.serving.authorization import Operation
from protocol.serving.request_context import RequestContext

__all__ = ["described_credentials"]

_TWICE: Final = "Cannot describe SCRAM credentials for the same user twice in a single request"
_UNKNOWN: Final = "Attempt to describe a user credential that does not exist"

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Info = DescribeUserScramCredentialsResponse.CredentialInfo


def described_credentials(
    scram: ScramImage, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """The mechanisms and iterations of the users that are named, or of all if none is. It never holds salts
    or keys."""
    if not context.allows_cluster(Operation.DESCRIBE):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=error, error_message=error.message)
    infos: dict[str, list[Info]] = {}
    named = [each.name for each in request.users or ()]
    wanted = set(named)
    for (mechanism, user), known in sorted(scram.by_key.items(), key=lambda item: item[0]):
        if not wanted or user in wanted:
            infos.setdefault(user, []).append(Info(mechanism, known.iterations))
    times = Counter(named)
    results = []
    for name in dict.fromkeys(named) if named else sorted(infos):
        if times[name] > 1:
            error, fault = ErrorCode.DUPLICATE_RESOURCE, _TWICE
        elif name not in infos:
            error, fault = ErrorCode.RESOURCE_NOT_FOUND, _UNKNOWN
        else:
            results.append(Result(user=name, credential_infos=infos[name]))
            continue
        results.append(Result(user=name, error_code=error, error_message=f"{fault}: {name}"))
    return DescribeUserScramCredentialsResponse(results=results)
