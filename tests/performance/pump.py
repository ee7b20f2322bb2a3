"""The floor beside the brokers: a C program that receives, writes to a file and answers (``pump.c``)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from protocol.framing import encode_response_frame
from protocol.messages.fetch import FetchResponse
from protocol.messages.produce import ProduceResponse
from tests.performance.cases import Case
from tests.performance.compiled import compiled
from tests.performance.contenders import Topic
from tests.performance.frames import FETCH_VERSION, PRODUCE_VERSION
from tests.performance.processor_time import Spent, spent

TOPIC: Final = "pump"
TOPIC_ID: Final = bytes(range(16))


class Pump:
    """One process for one case, since it answers every fetch with the same number of bytes. Raises
    RuntimeError where no C compiler is. Its files go when a topic is deleted, and with `stop`."""

    name = "the pump"
    is_broker = False

    def __init__(self, folder: Path, case: Case) -> None:
        program = compiled("pump")
        if program is None:
            raise RuntimeError("the pump wants a C compiler: there is no cc, gcc or clang on the PATH")
        self._folder = Path(tempfile.mkdtemp(prefix="pump-", dir=folder))
        fetched = case.request_bytes if case.kind == "fetch" else 0
        head, tail = _fetch_answer(fetched)
        command = [
            program,
            self._folder / "file",
            _produce_answer().hex(),
            head.hex(),
            tail.hex(),
            str(fetched),
        ]
        self._process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def spent(self) -> Spent:
        return spent(self._process.pid)

    def make_topic(self, partitions: int) -> Topic:
        return Topic(TOPIC, TOPIC_ID.hex(), partitions)

    def delete_topic(self, topic: Topic) -> None:
        for file in self._folder.glob("file.[0-9]*"):
            file.unlink()

    def stop(self) -> None:
        self._process.communicate()
        shutil.rmtree(self._folder)


def _produce_answer() -> bytes:
    partition = ProduceResponse.PartitionProduceResponse(base_offset=0, log_start_offset=0)
    topic = ProduceResponse.TopicProduceResponse(name=TOPIC, partition_responses=[partition])
    return b"".join(encode_response_frame(ProduceResponse(responses=[topic]), PRODUCE_VERSION, 0))  # type: ignore[arg-type]


def _fetch_answer(size_bytes: int) -> tuple[bytes, bytes]:
    """What stands before the records of a whole answer, and behind them."""
    records = bytes(size_bytes)
    partition = FetchResponse.PartitionData(
        high_watermark=1, last_stable_offset=1, log_start_offset=0, aborted_transactions=None, records=records
    )
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    frame = b"".join(
        encode_response_frame(FetchResponse(responses=[topic]), FETCH_VERSION, 0)  # type: ignore[arg-type]
    )
    tail_bytes = 3 if size_bytes else 0
    return frame[: len(frame) - size_bytes - tail_bytes], frame[len(frame) - tail_bytes :]
