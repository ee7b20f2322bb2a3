"""Metadata records of producer ids."""

from protocol.codec.message import Message, metadata_record
from protocol.primitives import i32, i64


@metadata_record(key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    """The first producer id that is not handed out yet, and to which broker the last block went."""

    broker_id: i32 = 0
    broker_epoch: i64 = -1
    next_producer_id: i64 = 0
