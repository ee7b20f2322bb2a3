"""Transactional ids played by hand: what `transactions/*.txt` says is asked of a coordinator, and what
follows.

The coordinator is ours, or Apache Kafka's own (`GenuineCoordinator`): both print the same. Its log takes
every record at once, and markers are written when the transcript says so. Times are milliseconds from 0.

    coordinator version=2                    the scene: the cluster's transaction.version
    init t timeout=60000 [producer=1000/0] [two-phase] [keep]                       InitProducerId
    add t producer=1000/0 partitions=a-0,a-1 client=2                               AddPartitionsToTxn
    verify t producer=1000/0 partitions=a-0                                         the same, to verify only
    end t commit producer=1000/0 client=2                                           EndTxn; or abort
    markers t                                the partitions of the ended transaction have their markers
    wait 10000 t                             time; every 10000 overdue transactions are looked for
    given t state=Ongoing producer=1000/0 …  a record that was loaded; more fields: previous, next, timeout,
                                             started, changed, client, partitions

After the answer comes the id as it is then: its state, producer id and epoch, and what is not as in a new
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from broker.coordinator.transaction.transaction_metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TransactionMetadata,
)
from broker.coordinator.transaction.transaction_records import read_transaction, transaction_record
from broker.coordinator.transaction.transaction_states import STATES_BY_LABEL
from protocol.errors import ErrorCode
from tests.simulation.transcript_file import Command, Transcript
from tests.support.genuine.java_oracle.message_oracle import transaction_answers
from tests.support.rigs.group_world import now
from tests.support.rigs.transaction_world import TransactionWorld

STEP_MS = 10_000


class CoordinatorOnStage(Protocol):
    """Plays one command after the other."""

    def run_command(self, command: Command) -> list[str]: ...


class TransactionsByHand:
    """Our coordinator."""

    def __init__(self) -> None:
        self._world = TransactionWorld()

    def run_command(self, command: Command) -> list[str]:
        if command.verb == "coordinator":
            self._world = TransactionWorld(int(command.options["version"]))
            return []
        told = getattr(self, f"_{command.verb}")(command, *command.words[:1])
        known = self._world.shard.by_id
        return [*told, *(_shown(id_, known[id_]) for id_ in _ids(command) if id_ in known)]

    def _init(self, command: Command, transactional_id: str) -> list[str]:
        options = command.options
        fields: dict[str, Any] = {
            "enable2_pc": "two-phase" in command.words,
            "keep_prepared_txn": "keep" in command.words,
        }
        if "producer" in options:
            fields["producer_id"], fields["producer_epoch"] = _producer(command)
        response = now(self._world.init(transactional_id, int(options["timeout"]), **fields))
        return [_answer(ErrorCode(response.error_code).name, response.producer_id, response.producer_epoch)]

    def _add(self, command: Command, transactional_id: str) -> list[str]:
        partitions, client = _partitions(command), int(command.options["client"])
        error = now(self._world.add(transactional_id, _producer(command), partitions, client))
        return [error.name]

    def _verify(self, command: Command, transactional_id: str) -> list[str]:
        errors = now(self._world.verify(transactional_id, _producer(command), _partitions(command)))
        return [f"{topic}-{index} {error.name}" for (topic, index), error in sorted(errors.items())]

    def _end(self, command: Command, transactional_id: str) -> list[str]:
        committed, client = "commit" in command.words, int(command.options["client"])
        response = now(self._world.end(transactional_id, _producer(command), committed, client))
        return [_answer(ErrorCode(response.error_code).name, response.producer_id, response.producer_epoch)]

    def _markers(self, command: Command, transactional_id: str) -> list[str]:
        self._world.write_markers(transactional_id)
        return []

    def _wait(self, command: Command, time_ms: str) -> list[str]:
        self._world.timers.advance(int(time_ms))
        return []

    def _given(self, command: Command, transactional_id: str) -> list[str]:
        metadata = _given(command)
        record = transaction_record(transactional_id, metadata, self._world.server_version)
        self._world.shard.replay(*record, None)
        return []


class GenuineCoordinator:
    """Apache Kafka's coordinator. All commands of a transcript go to it at once."""

    def __init__(self, transcript: Transcript) -> None:
        questions: list[dict[str, Any]] = []
        self._counts: dict[int, int] = {}
        version = 0
        for command in transcript.commands:
            version = int(command.options.get("version", version))
            asked = _questions(command, version)
            self._counts[command.line_number] = len(asked)
            questions += asked
        self._answers = iter(transaction_answers(questions))

    def run_command(self, command: Command) -> list[str]:
        answers = [next(self._answers) for _ in range(self._counts[command.line_number])]
        if not answers:
            return []
        answer = answers[-1]
        told: list[str] = []
        if "producer_id" in answer:
            told = [_answer(answer["error"], answer["producer_id"], answer["epoch"])]
        elif "error" in answer:
            told = [answer["error"]]
        elif "partitions" in answer:
            told = [f"{name} {error}" for name, error in sorted(answer["partitions"].items())]
        if "value" in answer:
            metadata = read_transaction(bytes.fromhex(answer["value"]))
            metadata = msgspec.structs.replace(
                metadata, last_producer_epoch=answer["last_epoch"], previous_producer_id=answer["previous_id"]
            )
            told.append(_shown(_ids(command)[0], metadata))
        return told


def _questions(command: Command, server_version: int) -> list[dict[str, Any]]:
    """What a command asks of `TransactionOracle`."""
    verb, options = command.verb, command.options
    if verb == "coordinator":
        return [{"verb": verb, "version": server_version}]
    if verb == "wait":
        return [{"verb": verb, "ms": STEP_MS, "id": _ids(command)[0]}] * (int(command.words[0]) // STEP_MS)
    question: dict[str, Any] = {"verb": verb, "id": command.words[0]}
    if verb == "given":
        record = transaction_record(command.words[0], _given(command), server_version)
        assert record.value is not None
        return [{"verb": "load", "id": command.words[0], "value": record.value.hex()}]
    if "producer" in options:
        question["producer_id"], question["epoch"] = _producer(command)
    if "partitions" in options:
        question["partitions"] = options["partitions"].split(",")
    question["timeout"] = int(options.get("timeout", 0))
    question["client"] = int(options.get("client", 0))
    question["commit"] = "commit" in command.words
    question["2pc"] = "two-phase" in command.words
    question["keep"] = "keep" in command.words
    return [question]


def _ids(command: Command) -> Sequence[str]:
    """The transactional id of a command; with `wait` it comes second."""
    return command.words[1:2] if command.verb == "wait" else command.words[:1]


def _producer(command: Command) -> tuple[int, int]:
    producer_id, epoch = command.options["producer"].split("/")
    return int(producer_id), int(epoch)


def _partitions(command: Command) -> list[tuple[str, int]]:
    names = command.options.get("partitions", "")
    return [(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names.split(",") if name]


def _given(command: Command) -> TransactionMetadata:
    options, (producer_id, epoch) = command.options, _producer(command)
    return TransactionMetadata(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=int(options.get("timeout", 60_000)),
        state=STATES_BY_LABEL[options["state"]],
        last_update_ms=int(options.get("changed", 0)),
        start_ms=int(options.get("started", NO_TIME)),
        partitions=frozenset(_partitions(command)),
        previous_producer_id=int(options.get("previous", NO_PRODUCER_ID)),
        next_producer_id=int(options.get("next", NO_PRODUCER_ID)),
        client_version=int(options.get("client", 0)),
    )


def _answer(error: str, producer_id: int, epoch: int) -> str:
    if error != "NONE":
        return (
            error if (producer_id, epoch) == (NO_PRODUCER_ID, NO_EPOCH) else f"{error} {producer_id}/{epoch}"
        )
    return error if producer_id == NO_PRODUCER_ID else f"{producer_id}/{epoch}"


def _shown(transactional_id: str, metadata: TransactionMetadata) -> str:
    """One line: what every id has, and what this one has more."""
    words: list[tuple[str, Any, Any]] = [
        ("last epoch", metadata.last_producer_epoch, NO_EPOCH),
        ("previous id", metadata.previous_producer_id, NO_PRODUCER_ID),
        ("next id", metadata.next_producer_id, NO_PRODUCER_ID),
        ("timeout", metadata.timeout_ms, 60_000),
        ("started", metadata.start_ms, NO_TIME),
        ("changed", metadata.last_update_ms, None),
        ("client", metadata.client_version, 0),
        ("partitions", _joined(metadata.partitions), ""),
    ]
    more = [f"{word} {value}" for word, value, usual in words if value != usual]
    return ", ".join(
        [f"{transactional_id} {metadata.state.label} {metadata.producer_id}/{metadata.producer_epoch}", *more]
    )


def _joined(partitions: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{topic}-{index}" for topic, index in sorted(partitions))
