"""The schema of `.snapshot` files: the producer state of a partition."""

from protocol.codec.message import Message, Struct, data
from protocol.primitives import i16, i32, i64, u32


@data(versions="1", flexible="none")
class ProducerSnapshot(Message):
    """A partition's producers at an offset, as written to `.snapshot` files."""

    class ProducerEntry(Struct):
        """One producer."""

        producer_id: i64 = 0
        epoch: i16 = 0
        last_sequence: i32 = 0
        last_offset: i64 = 0
        offset_delta: i32 = 0
        timestamp: i64 = 0
        coordinator_epoch: i32 = 0
        current_txn_first_offset: i64 = 0

    crc: u32 = 0
    producer_entries: list[ProducerEntry] = []
