"""DescribeUserScramCredentials (50): the SCRAM mechanisms of users, and their iterations. KIP-554.

Version 0. No users, or null, stands for all of them. A user who is named twice is DUPLICATE_RESOURCE, one
without credentials RESOURCE_NOT_FOUND. Salts and keys are told to nobody. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from broker.services import HasMetadata
from controller.metadata.described_credentials import described_credentials
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.serving.request_context import RequestContext


def handle(
    services: HasMetadata, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    return described_credentials(services.metadata.image.scram, context, request)
