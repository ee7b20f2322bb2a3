"""A partition at its leader, to which a transcript (`partitions/*.txt`) says what happens.

Node 1 leads the partition. What followers, clients and the controller do is written in the transcript. Times
are milliseconds; nodes are written n1, n2, and offsets [first..end).

    partition replicas=1,2 isr=1,2 [min.isr=2] [rack=a,b]    the scene; n1 leads in epoch 0
    append 3 [acks=1]                        a producer's batch, acks=all unless it says otherwise
    fetch n2 from=3 [last=0] [epoch=0] [broker-epoch=5]      a follower; or `consumer`, with a rack
    broker n3 [fenced] [leaving] [epoch=6]   what the metadata log says of a broker
    elect n2 | elect n1                      another leader epoch
    metadata isr=1,2 [replicas=1,2,3]        another change of the partition
    answer [INELIGIBLE_REPLICA | lost] [isr=1,2]             the controller answers AlterPartition
    pass 15000                               time
    latest | end-of epoch=1                  ListOffsets for a consumer, OffsetForLeaderEpoch
    state
"""

from __future__ import annotations

from typing import Any

from broker.handlers import list_offsets, offset_for_leader_epoch
from broker.replication.partition_state import CommittedPartitionState
from broker.replication.roles import Leader
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.peer_channel import PeerError
from protocol.serving.pending import Pending
from storage.slices import LogSlice
from tests.simulation.transcript_file import Command
from tests.support.rigs.handler_rig import now
from tests.support.rigs.leader_rig import BROKER_EPOCH, TOPIC, LeaderRig

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class PartitionByHand:
    """The scene of one `partition` command."""

    def __init__(self, command: Command) -> None:
        options = command.options
        replicas = _numbers(options["replicas"])
        racks = options.get("rack", "").split(",") if "rack" in options else []
        self._rig = LeaderRig(replica_selector_class=RACK_AWARE)
        least = options.get("min.isr", "1")
        self._rig.lead(replicas, _numbers(options["isr"]), min_insync_replicas=least)
        for replica, rack in zip(replicas, racks, strict=False):
            self._rig.register(replica, rack=rack)
        self._open: list[tuple[str, Pending[Any]]] = []
        self._shown_requests = 0
        self._before = self._facts()

    def run_command(self, command: Command) -> list[str]:
        """What the command prints: what was answered, and then what has changed."""
        run = getattr(self, "_" + command.verb.replace("-", "_"))
        told: list[str] = run(command)
        return [*told, *self._changes()]

    # Commands.

    def _append(self, command: Command) -> list[str]:
        (count,) = command.words
        acks = command.options.get("acks", "all")
        first = self._rig.log(TOPIC).log_end_offset
        answer = self._rig.produce(int(count), acks=-1 if acks == "all" else int(acks))
        name = f"acks={acks} [{first}..{first + int(count)})"
        if isinstance(answer, Pending) and not answer.done:
            self._open.append((name, answer))
            return [f"{name} waits"]
        return [_acknowledged(name, answer)]

    def _fetch(self, command: Command) -> list[str]:
        (who,) = command.words
        options = command.options
        replica = -1 if who == "consumer" else _number(who)
        epoch = options.get("epoch")
        answer = self._rig.fetch(
            int(options["from"]),
            replica=replica,
            leader_epoch=None if epoch is None else int(epoch),
            last_epoch=int(options.get("last", -1)),
            broker_epoch=int(options.get("broker-epoch", BROKER_EPOCH)),
            rack=options.get("rack", ""),
        )
        response = now(answer)
        ((data,),) = [topic.partitions for topic in response.responses]
        if data.error_code:
            told = data.current_leader
            leader = "" if told is None else f" n{told.leader_id} leads in epoch {told.leader_epoch}"
            return [f"{who} ◀ {ErrorCode.of(data.error_code).name}{leader}"]
        if data.diverging_epoch is not None:
            parted = data.diverging_epoch
            return [f"{who} ◀ diverging: epoch {parted.epoch} ends at {parted.end_offset}"]
        if data.preferred_read_replica >= 0:
            return [f"{who} ◀ read from n{data.preferred_read_replica}"]
        records: LogSlice | bytes = data.records
        size = "nothing" if isinstance(records, bytes) else "records"
        return [f"{who} ◀ {size}, high watermark {data.high_watermark}"]

    def _broker(self, command: Command) -> list[str]:
        who, *words = command.words
        self._rig.register(
            _number(who),
            fenced="fenced" in words,
            in_controlled_shutdown="leaving" in words,
            epoch=int(command.options.get("epoch", BROKER_EPOCH)),
        )
        return []

    def _elect(self, command: Command) -> list[str]:
        (who,) = command.words
        self._rig.change(leader=_number(who))
        return []

    def _metadata(self, command: Command) -> list[str]:
        fields = {name: list(_numbers(value)) for name, value in command.options.items()}
        self._rig.change(**fields)
        return []

    def _answer(self, command: Command) -> list[str]:
        if "lost" in command.words:
            self._rig.answer_with(PeerError("lost"))
        elif command.words:
            self._rig.refuse(ErrorCode[command.words[0]])
        elif "isr" in command.options:
            self._rig.answer(isr=list(_numbers(command.options["isr"])))
        else:
            self._rig.answer()
        return []

    def _pass(self, command: Command) -> list[str]:
        (milliseconds,) = command.words
        self._rig.timers.advance(int(milliseconds))
        return []

    def _latest(self, command: Command) -> list[str]:
        asked = ListOffsetsRequest.ListOffsetsPartition(0, -1, -1)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(TOPIC, [asked])])
        response = now(list_offsets.handle(self._rig.services, self._rig.context(2, 7), request))
        ((data,),) = [topic.partitions for topic in response.topics]
        return [ErrorCode.of(data.error_code).name if data.error_code else f"latest {data.offset}"]

    def _end_of(self, command: Command) -> list[str]:
        cls = OffsetForLeaderEpochRequest
        asked = cls.OffsetForLeaderPartition(0, -1, int(command.options["epoch"]))
        request = cls(-1, [cls.OffsetForLeaderTopic(TOPIC, [asked])])
        response = now(offset_for_leader_epoch.handle(self._rig.services, self._rig.context(23, 4), request))
        ((data,),) = [topic.partitions for topic in response.topics]
        if data.error_code:
            return [ErrorCode.of(data.error_code).name]
        return [f"epoch {data.leader_epoch} ends at {data.end_offset}"]

    def _state(self, command: Command) -> list[str]:
        partition, log = self._rig.partition, self._rig.log(TOPIC)
        facts = self._facts()
        isr = facts["isr"] or "knows no isr"
        offsets = f"log [{log.log_start_offset}..{log.log_end_offset}), high watermark {log.high_watermark}"
        return [f"{facts['role']}, {isr}, partition epoch {partition.partition_epoch}, {offsets}"]

    # What is told.

    def _facts(self) -> dict[str, str]:
        partition, log = self._rig.partition, self._rig.log(TOPIC)
        state = partition.state
        if not isinstance(state, Leader):
            role = f"follows n{partition.leader_id} in epoch {partition.leader_epoch}"
            return {"role": role, "isr": "", "high watermark": str(log.high_watermark)}
        isr = state.partition_state
        wish = (
            ""
            if isinstance(isr, CommittedPartitionState)
            else f", asks for {_listed(isr.sent_leader_and_isr.isr)}"
        )
        return {
            "role": f"leads in epoch {partition.leader_epoch} from {state.epoch_start_offset}",
            "isr": f"isr {_listed(isr.isr)}{wish}",
            "high watermark": str(log.high_watermark),
        }

    def _changes(self) -> list[str]:
        told = []
        for request in self._rig.controller.requests[self._shown_requests :]:
            for topic in request.topics:  # type: ignore[attr-defined]
                for wish in topic.partitions:
                    isr = [f"{each.broker_id}@{each.broker_epoch}" for each in wish.new_isr_with_epochs]
                    told.append(
                        f"controller ◀ AlterPartition isr={','.join(isr)} leader epoch={wish.leader_epoch} "
                        f"partition epoch={wish.partition_epoch}"
                    )
        self._shown_requests = len(self._rig.controller.requests)
        facts, before = self._facts(), self._before
        if facts["role"] != before["role"]:
            told.append(facts["role"])
        if facts["isr"] != before["isr"] and facts["isr"]:
            told.append(facts["isr"])
        if facts["high watermark"] != before["high watermark"]:
            told.append(f"high watermark {facts['high watermark']}")
        self._before = facts
        for name, pending in [each for each in self._open if each[1].done]:
            told.append(_acknowledged(name, pending))
        self._open = [each for each in self._open if not each[1].done]
        return told


def _acknowledged(name: str, answer: Any) -> str:
    ((data,),) = [topic.partition_responses for topic in now(answer).responses]
    return f"{name} {ErrorCode.of(data.error_code).name if data.error_code else 'acknowledged'}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _number(node: str) -> int:
    return int(node.removeprefix("n"))


def _listed(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))
