"""A simulated network: every message takes its own time, so messages overtake each other; some are lost, some
come twice; links are cut in one direction or in both.

An answer is lost or late as its request is. What a real driver hears of a lost message is a time-out or a
broken connection, now and then nothing at all: the node has to give up by itself then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.simulation.dice import Dice
from controller.raft.effects import Answer, Request
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch_snapshot import FetchSnapshotResponse

if TYPE_CHECKING:
    from broker.simulation.machine import Machine
    from broker.simulation.world import World

__all__ = ["Network", "Token"]

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

    def __init__(self, world: World, dice: Dice) -> None:
        self._world = world
        self._word = dice.word
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
            world.post(world.weather.latency, self._fail, token, ErrorCode.BROKER_NOT_AVAILABLE)
            return
        word = self._word()
        weather = world.weather
        if word & _ODDS < weather.drop or (self._cut and (source.number, target.number) in self._cut):
            self._lost(token, request.timeout_ms, word)
            return
        world.post(self._delay(word), self._arrive, token, target)
        if word >> 4 & _ODDS < weather.repeat:
            world.post(self._delay(self._word()), self._arrive, token, target)

    def _delay(self, word: int) -> int:
        weather = self._world.weather
        delay = weather.latency + (word >> 36) % weather.jitter
        if word >> 20 & _ODDS < weather.slow:
            delay *= _SLOWER
        return delay

    def longest_delay(self) -> int:
        """What a message may take in this weather, in µs."""
        weather = self._world.weather
        return (weather.latency + weather.jitter) * (_SLOWER if weather.slow else 1)

    def _lost(self, token: Token, timeout_ms: int, word: int) -> None:
        """The driver of the asking side hears of it: when its time is over, at once, or never."""
        chance = word >> 60
        if chance < 8:
            self._world.post(timeout_ms * 1_000, self._fail, token, ErrorCode.REQUEST_TIMED_OUT)
        elif chance < 12:
            self._world.post(self._delay(word), self._fail, token, ErrorCode.NETWORK_EXCEPTION)

    def _arrive(self, token: Token, target: Machine) -> None:
        if self._world.story is not None:
            self._world.story.message(self._world.now, token.source, target, token.message)
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
        weather = world.weather
        asking = token.source
        if asking is None:
            world.post(self._delay(word), world.client_answered, token, answer.message)
            return
        if word & _ODDS < weather.drop or (self._cut and (source.number, asking.number) in self._cut):
            self._lost(token, 1_000, word)
            return
        message = answer.message
        if weather.corrupt and isinstance(message, FetchSnapshotResponse):
            message = self._perhaps_corrupt(message)
        world.post(self._delay(word), self._answered, token, message)

    def _answered(self, token: Token, message: Message) -> None:
        machine: Machine = token.source
        if machine.life == token.life:
            if self._world.story is not None:
                self._world.story.message(self._world.now, None, machine, message)
            machine.response_arrived(token, message)

    def _fail(self, token: Token, error: ErrorCode) -> None:
        machine: Machine | None = token.source
        if machine is not None and machine.life == token.life:
            machine.request_failed(token, error)

    def _perhaps_corrupt(self, message: FetchSnapshotResponse) -> FetchSnapshotResponse:
        word = self._word()
        if word & _ODDS >= self._world.weather.corrupt:
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
