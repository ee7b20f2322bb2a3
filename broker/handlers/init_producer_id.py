"""InitProducerId (22): a number for a producer, so that what it sends twice is recognised. KIP-98, KIP-360,
KIP-854.

Versions 0-5. 0: an id for an idempotent or a transactional producer; 1: throttled after the answer; 2:
flexible; 3: the producer names the id and epoch that it has; 4: PRODUCER_FENCED may come; 5:
TRANSACTION_ABORTABLE may come. Kafka's version 6 (two-phase commit) is not stable and not served.

An idempotent producer gets a new id with epoch 0 each time. Needs IDEMPOTENT_WRITE on the cluster; Kafka
also accepts whoever may write to any topic (KIP-679).

Left out: transactions. A producer with a transactional id that it may use gets the same final answer as one
that may not, TRANSACTIONAL_ID_AUTHORIZATION_FAILED: it is the only code after which both the Java client
and librdkafka give up at once instead of asking again for minutes. FindCoordinator, which such a producer
asks first, answers likewise.
"""

from __future__ import annotations

from typing import Final

from broker.services import HasProducerIds
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FIRST_EPOCH: Final = 0


def handle(
    services: HasProducerIds, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows_cluster(Operation.IDEMPOTENT_WRITE):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    pending: Pending[InitProducerIdResponse] = Pending()

    def grant(producer_id: int, error: ErrorCode) -> None:
        pending.complete(_refused(error) if error else InitProducerIdResponse(0, 0, producer_id, FIRST_EPOCH))

    services.producer_ids.allocate(grant)
    return pending if pending.response is None else pending.response


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
