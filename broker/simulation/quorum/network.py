"""A simulated network: every message takes its own time, so messages overtake each other; some are lost, some
come twice; links are cut in one direction or in both.

An answer is lost or late as its request is. What a real driver hears of a lost message is a time-out or a
broken connection, now and then nothing at all: the node has to give up by itself then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.simulation.seeded_random import SeededRandom
from controller.raft.effects import Answer, Request
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch_snapshot import FetchSnapshotResponse

if TYPE_CHECKING:
    from broker.simulation.quorum.machine import Machine
    from broker.simulation.quorum.world import World

__all__ = ["LISTENER", "Network", "Token"]

LISTENER: Final = "CONTROLLER"

_ODDS: Final = 0xFFFF
_SLOWER: Final = 20


class Token(msgspec.Struct, frozen=True, eq=False):
    """A request under way, with which the answer finds its way back. source None: a client of the quorum."""

    source: Any  # Machine | None
    life: int
    request_id: int
    message: Message


def supported_features() -> ApiVersionsResponse:
    """What a driver answers to ApiVersions: this replica can run kraft.version 0 and 1."""
    feature = ApiVersionsResponse.SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    return ApiVersionsResponse(supported_features=[feature])


class Network:
    """Between the machines of one world."""

    def __init__(self, world: World, random: SeededRandom) -> None:
        self._world = world
        self._word = random.word
        self._cut: dict[tuple[int, int], bool] = {}

    # Cuts

    def cut(self, source: int, target: int) -> None:
        """Nothing arrives any more from source at target; the other direction is another cut."""
        self._cut[(source, target)] = True

    def isolate(self, inside: int, count: int) -> None:
        """No message passes between the machines of the bit set and the others of `count`."""
        for a in range(count):
            for b in range(count):
                if (inside >> a ^ inside >> b) & 1:
                    self._cut[(a, b)] = True

    def heal(self) -> None:
        self._cut.clear()

    def connected(self, a: int, b: int) -> bool:
        return (a, b) not in self._cut and (b, a) not in self._cut

    # Messages

    def send(self, source: Machine, request: Request) -> None:
        world = self._world
        target = world.addresses.get((request.to.host, request.to.port))
        token = Token(source, source.life, request.request_id, request.message)
        if target is None:
            world.post(world.fault_plan.latency, self._fail, token, ErrorCode.BROKER_NOT_AVAILABLE)
            return
        word = self._word()
        fault_plan = world.fault_plan
        if word & _ODDS < fault_plan.drop or (self._cut and (source.number, target.number) in self._cut):
            self._lost(token, request.timeout_ms, word)
            return
        world.post(self._delay(word), self._arrive, token, target)
        if word >> 4 & _ODDS < fault_plan.repeat:
            world.post(self._delay(self._word()), self._arrive, token, target)

    def _delay(self, word: int) -> int:
        fault_plan = self._world.fault_plan
        delay = fault_plan.latency + (word >> 36) % fault_plan.jitter
        if word >> 20 & _ODDS < fault_plan.slow:
            delay *= _SLOWER
        return delay

    def longest_delay(self) -> int:
        """What a message may take under this fault plan, in µs."""
        fault_plan = self._world.fault_plan
        return (fault_plan.latency + fault_plan.jitter) * (_SLOWER if fault_plan.slow else 1)

    def _lost(self, token: Token, timeout_ms: int, word: int) -> None:
        """The driver of the asking side hears of it: when its time is over, at once, or never."""
        random_source = word >> 60
        if random_source < 8:
            self._world.post(timeout_ms * 1_000, self._fail, token, ErrorCode.REQUEST_TIMED_OUT)
        elif random_source < 12:
            self._world.post(self._delay(word), self._fail, token, ErrorCode.NETWORK_EXCEPTION)

    def _arrive(self, token: Token, target: Machine) -> None:
        if self._world.trace is not None:
            self._world.trace.message(self._world.now, token.source, target, token.message)
        if not target.is_up:
            self._world.post(self._delay(self._word()), self._fail, token, ErrorCode.BROKER_NOT_AVAILABLE)
        elif isinstance(token.message, ApiVersionsRequest):
            self.answer(target, Answer(token, supported_features()))
        else:
            target.request_arrived(token)

    def answer(self, source: Machine, answer: Answer) -> None:
        token = answer.token
        world = self._world
        if not isinstance(token, Token):
            return
        word = self._word()
        fault_plan = world.fault_plan
        asking = token.source
        if asking is None:
            world.post(self._delay(word), world.client_answered, token, answer.message)
            return
        if word & _ODDS < fault_plan.drop or (self._cut and (source.number, asking.number) in self._cut):
            self._lost(token, 1_000, word)
            return
        message = answer.message
        if fault_plan.corrupt and isinstance(message, FetchSnapshotResponse):
            message = self._perhaps_corrupt(message)
        world.post(self._delay(word), self._answered, token, message)

    def _answered(self, token: Token, message: Message) -> None:
        machine: Machine = token.source
        if machine.life == token.life:
            if self._world.trace is not None:
                self._world.trace.message(self._world.now, None, machine, message)
            machine.response_arrived(token, message)

    def _fail(self, token: Token, error: ErrorCode) -> None:
        machine: Machine | None = token.source
        if machine is not None and machine.life == token.life:
            machine.request_failed(token, error)

    def _perhaps_corrupt(self, message: FetchSnapshotResponse) -> FetchSnapshotResponse:
        word = self._word()
        if word & _ODDS >= self._world.fault_plan.corrupt:
            return message
        changed = msgspec.structs.replace(message, topics=[])
        for topic in message.topics:
            partitions = []
            for partition in topic.partitions:
                content = bytearray(bytes(partition.unaligned_records))  # type: ignore[arg-type]
                if content:
                    content[(word >> 16) % len(content)] ^= 1 + (word >> 40) % 255
                    self._world.coverage.count("chunk corrupted")
                partitions.append(msgspec.structs.replace(partition, unaligned_records=bytes(content)))
            changed.topics.append(FetchSnapshotResponse.TopicSnapshot(topic.name, partitions))
        return changed
