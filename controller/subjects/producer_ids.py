"""Producer ids in blocks of 1000 (KIP-730): a broker gives them out one by one and comes back for more.

The record carries the first id after the block, so a block that was handed to a broker which then died is
lost, never given twice.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.image.cluster_image import ClusterImage
from controller.subjects.result import Decision
from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.metadata_log.cluster import ProducerIdsRecord

__all__ = ["BLOCK_SIZE", "allocate_producer_ids"]

BLOCK_SIZE: Final = 1000
LAST_PRODUCER_ID: Final = (1 << 63) - 1


def allocate_producer_ids(
    image: ClusterImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """STALE_BROKER_EPOCH for a broker that is not registered, or not in this epoch."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision((), AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    first = image.producer_ids.next_producer_id
    if first > LAST_PRODUCER_ID - BLOCK_SIZE:
        return Decision((), AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    record = ProducerIdsRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Decision(
        (record,), AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    )
