"""AlterClientQuotas (49): how much of the cluster a client may use. KIP-546; the quotas themselves KIP-13,
KIP-55, KIP-124, KIP-599, KIP-612.

Versions 0-1. 1 is flexible. Each entity has its own answer; validate_only decides the same and writes
nothing. Brokers apply a quota when they see it in the metadata log; controllers apply two of them,
`controller_mutation_rate` and `connection_creation_rate`.

Authorization: ALTER_CONFIGS on the cluster. Left out: host names as addresses, for which Kafka asks its
resolver.
"""

from __future__ import annotations

from controller.services import ControllerServices
from controller.subjects.quota_changes import alter_client_quotas
from controller.subjects.result import names_too_much
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from protocol.refusals import TOO_LARGE, alter_client_quotas_refused
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext


def handle(
    services: ControllerServices, context: RequestContext, request: AlterClientQuotasRequest
) -> Pending[AlterClientQuotasResponse] | AlterClientQuotasResponse:
    if not context.allows_cluster(Operation.ALTER_CONFIGS):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return alter_client_quotas_refused(request, error, error.message)
    if names_too_much(request):
        return alter_client_quotas_refused(request, ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    return services.controller.decide(
        lambda image: alter_client_quotas(image, request),
        lambda error: alter_client_quotas_refused(request, error, error.message),
    )
