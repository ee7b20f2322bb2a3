"""Transactional producers of kafka-python and aiokafka, called in one manner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.structs import OffsetAndMetadata as AioOffset
from aiokafka.structs import TopicPartition as AioAt
from kafka import KafkaProducer
from kafka.errors import InvalidProducerEpochError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.support.clients.librdkafka import until

PATIENCE_SECONDS: Final = 90


class Transactional(Protocol):
    """A producer that is ready for transactions. Each call returns when it is done, or raises."""

    def begin(self) -> None: ...
    def send(self, topic: str, *values: str, partition: int = 0) -> None: ...
    def send_offset(self, group: str, topic: str, offset: int) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class KafkaPython:
    """kafka-python's producer."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer: Any = KafkaProducer(
            bootstrap_servers=address, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: str, partition: int = 0) -> None:
        answers = [self._producer.send(topic, value.encode(), partition=partition) for value in values]
        try:
            for answer in answers:
                answer.get(PATIENCE_SECONDS)
        except InvalidProducerEpochError:
            # It asks for a new epoch by itself, and a coordinator aborts an open transaction of whoever
            # fenced it without a look at the old epoch, as Apache Kafka's does.
            until(lambda: not self._producer._transaction_manager.is_bumping_epoch(), "no epoch is asked for")
            raise

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class Aiokafka:
    """aiokafka's producer, on an event loop in a thread of its own."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        # The task of a producer that is fenced ends with what the producer's caller is told anyway.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def started() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=address,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self._producer = self._done(started())

    def _done(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(PATIENCE_SECONDS)

    def begin(self) -> None:
        self._done(self._producer.begin_transaction())

    def send(self, topic: str, *values: str, partition: int = 0) -> None:
        async def sent() -> None:
            answers = [
                await self._producer.send(topic, value.encode(), partition=partition) for value in values
            ]
            await asyncio.gather(*answers)

        self._done(sent())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {AioAt(topic, 0): AioOffset(offset, "")}
        self._done(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._done(self._producer.commit_transaction())

    def abort(self) -> None:
        self._done(self._producer.abort_transaction())

    def close(self) -> None:
        self._done(self._producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()
