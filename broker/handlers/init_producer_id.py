"""InitProducerId (22): a number for a producer, so that what it sends twice is recognised. KIP-98, KIP-360,
KIP-854.

Versions 0-5. 0: an id for an idempotent or a transactional producer; 1: throttled after the answer; 2:
flexible; 3: the producer names the id and epoch that it has; 4: PRODUCER_FENCED may come; 5:
TRANSACTION_ABORTABLE may come. Kafka's version 6 (two-phase commit) is not stable and not served.

An idempotent producer gets a new id with epoch 0 each time. Needs IDEMPOTENT_WRITE on the cluster, or WRITE
on any topic (KIP-679). A transactional one needs WRITE on its transactional id, and gets what the id's
coordinator gives (`coordinator.transaction.init_producer_id`).
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.services import HasProducerIds, HasTransactions
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.pending import Pending, then
from protocol.serving.request_context import RequestContext

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
FENCED_SINCE: Final = 4
"""Older producers know PRODUCER_FENCED as INVALID_PRODUCER_EPOCH."""


class InitProducerIdServices(HasProducerIds, HasTransactions, Protocol):
    """What this handler needs of the broker's services."""


def handle(
    services: InitProducerIdServices, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    name = request.transactional_id
    if name is not None and not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if name is None and not _may_be_idempotent(context):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if name is not None:
        answer = services.transactions.init_producer_id(name, request)
        return then(answer, _known_errors) if context.version < FENCED_SINCE else answer
    pending: Pending[InitProducerIdResponse] = Pending()

    def grant(producer_id: int, error: ErrorCode) -> None:
        pending.complete(_refused(error) if error else InitProducerIdResponse(0, 0, producer_id, FIRST_EPOCH))

    services.producer_ids.allocate(grant)
    return pending if pending.response is None else pending.response


def _may_be_idempotent(context: RequestContext) -> bool:
    return context.may_see_cluster(Operation.IDEMPOTENT_WRITE) or context.allows_any(
        Operation.WRITE, ResourceType.TOPIC
    )


def _known_errors(response: InitProducerIdResponse) -> InitProducerIdResponse:
    if response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
