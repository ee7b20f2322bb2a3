"""Connections of a fuzzer: decent ones, some that are half closed, some that never read, some that leave.

One thread serves all of them. A request goes out on a connection that has room; who waits too long for an
answer is left behind, open for a while, as a client that hangs. Every answer that comes is read to its last
byte and given to whoever wants to learn from it.
"""

from __future__ import annotations

import random
import selectors
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final

from protocol.codec.message import Message
from protocol.errors import ProtocolError
from protocol.framing import decode_response
from protocol.registry import api
from tests.support.fuzz.budget import is_over_budget
from tests.support.fuzz.requests import Made

Learn = Callable[[Made, Message], None]

PATIENCE_SECONDS: Final = 0.7
CONNECTIONS_PER_LISTENER: Final = 12
_LEFT_BEHIND: Final = 40
_UNSENT_LIMIT_SECONDS: Final = 3.0
_READ_BYTES: Final = 1 << 18


class Manners(Enum):
    """How a connection behaves; the number is how often it is chosen."""

    ONE_BY_ONE = 50
    IN_A_ROW = 25
    """Up to eight requests before the first answer is awaited."""
    HALF_CLOSED = 12
    """One request, then the sending side is shut; the answer is still read."""
    DEAF = 8
    """Sends and never reads."""
    RUDE = 5
    """Leaves with a reset as soon as the request is out."""


_ROOM: Final = {Manners.IN_A_ROW: 8, Manners.DEAF: 30}


class Talker:
    """One connection. `waiting`: requests whose answers are due, the oldest first."""

    def __init__(self, address: tuple[str, int], manners: Manners) -> None:
        self.manners = manners
        self.waiting: deque[tuple[Made, float]] = deque()
        self.unsent = bytearray()
        self.sent_since = time.monotonic()
        self.served = 0
        self.may_be_closed = False
        """A Produce request without an answer went out: if it fails, the broker hangs up."""
        self.received = bytearray()
        self.socket = socket.create_connection(address, 5)
        self.socket.setblocking(False)

    @property
    def has_room(self) -> bool:
        if self.manners is Manners.HALF_CLOSED and self.served:
            return False
        return not self.unsent and len(self.waiting) < _ROOM.get(self.manners, 1)

    def say(self, made: Made) -> None:
        self.unsent += struct.pack(">i", len(made.frame)) + made.frame
        self.sent_since = time.monotonic()
        self.served += 1
        if made.answered:
            self.waiting.append((made, self.sent_since))
        else:
            self.may_be_closed = True

    def push(self) -> None:
        """What the system takes. Raises OSError if the broker has hung up."""
        with suppress(BlockingIOError):
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]

    def is_late(self, now: float) -> bool:
        if self.unsent and now - self.sent_since > _UNSENT_LIMIT_SECONDS:
            return True
        return bool(self.waiting) and now - self.waiting[0][1] > PATIENCE_SECONDS

    def close(self, *, reset: bool = False) -> None:
        with suppress(OSError):
            if reset:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.close()


class Crowd:
    """See the module. `wrong`: requests whose answer did not come or could not be read."""

    def __init__(self, broker: str, controller: str, seed: int, learn: Learn) -> None:
        self.wrong: list[tuple[Made, str]] = []
        self.errors: Counter[tuple[str, int]] = Counter()
        self.answers = 0
        self.waited_too_long: Counter[str] = Counter()
        self._addresses = {False: _split(broker), True: _split(controller)}
        self._random_source = random.Random(f"crowd {seed}")
        self._learn = learn
        self._selector = selectors.DefaultSelector()
        self._talkers: dict[bool, list[Talker]] = {False: [], True: []}
        self._left_behind: deque[Talker] = deque()

    def say(self, made: Made) -> None:
        """Sends it as soon as a connection of its listener has room. Raises OSError if nobody listens."""
        talker = self._with_room(made.is_controller)
        try:
            talker.say(made)
            self._push(talker)
        except OSError:
            self._ended(talker)
            return
        if talker.manners is Manners.RUDE:
            self._leave(talker, reset=True)
        self.listen(0)

    def outstanding(self) -> list[Made]:
        """What was sent and not answered yet."""
        return [made for talkers in self._talkers.values() for each in talkers for made, _ in each.waiting]

    def listen(self, seconds: float) -> None:
        """Reads what has come, sends what was left, and gives up who waits too long."""
        for key, events in self._selector.select(seconds):
            talker: Talker = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    self._push(talker)
                if events & selectors.EVENT_READ and talker.manners is not Manners.DEAF:
                    self._read(talker)
            except OSError:
                self._ended(talker)
        now = time.monotonic()
        for talkers in self._talkers.values():
            for talker in [each for each in talkers if each.is_late(now)]:
                self._too_late(talker)

    def close(self) -> None:
        for talker in [*self._talkers[False], *self._talkers[True], *self._left_behind]:
            talker.close()
        self._selector.close()

    def _with_room(self, is_controller: bool) -> Talker:
        talkers = self._talkers[is_controller]
        while True:
            free = [talker for talker in talkers if talker.has_room]
            if len(talkers) < CONNECTIONS_PER_LISTENER:
                return self._arrive(is_controller)
            if free:
                return self._random_source.choice(free)
            self.listen(0.05)

    def _arrive(self, is_controller: bool) -> Talker:
        manners = self._random_source.choices(list(Manners), [each.value for each in Manners])[0]
        talker = Talker(self._addresses[is_controller], manners)
        self._talkers[is_controller].append(talker)
        self._selector.register(talker.socket, selectors.EVENT_READ, talker)
        return talker

    def _push(self, talker: Talker) -> None:
        talker.push()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if talker.unsent else 0)
        self._selector.modify(talker.socket, wanted, talker)
        if talker.manners is Manners.HALF_CLOSED and talker.served and not talker.unsent:
            with suppress(OSError):
                talker.socket.shutdown(socket.SHUT_WR)

    def _read(self, talker: Talker) -> None:
        try:
            data = talker.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended(talker)
            return
        talker.received += data
        while len(talker.received) >= 4:
            end = 4 + int.from_bytes(talker.received[:4])
            if len(talker.received) < end:
                return
            frame = bytes(talker.received[4:end])
            del talker.received[:end]
            self._answered(talker, frame)

    def _answered(self, talker: Talker, frame: bytes) -> None:
        self.answers += 1
        if not talker.waiting:
            raise AssertionError(f"an answer to nothing: {frame[:40].hex()}")
        made, _ = talker.waiting.popleft()
        try:
            correlation_id, answer = decode_response(api(made.key).response, made.version, frame)
        except (ProtocolError, struct.error, IndexError) as error:
            self.wrong.append((made, f"the answer cannot be read: {error}"))
            return
        if correlation_id != made.number % 2**31:
            self.wrong.append((made, f"the answer carries correlation id {correlation_id}"))
        self._learn(made, answer)

    def _ended(self, talker: Talker) -> None:
        """The broker closed the connection. With several requests under way a bad one takes the answers of
        others with it: what the system had not sent yet is lost with unread bytes."""
        stands_alone = talker.manners in (Manners.ONE_BY_ONE, Manners.HALF_CLOSED)
        if talker.waiting and stands_alone and not talker.may_be_closed:
            made = talker.waiting[0][0]
            if made.decodable and not is_over_budget(made.is_controller, made.key, made.version, made.frame):
                self.wrong.append((made, f"the {talker.manners.name.lower()} connection was closed instead"))
        self._leave(talker)

    def _too_late(self, talker: Talker) -> None:
        if talker.manners is Manners.DEAF:
            self._leave(talker, reset=True)
            return
        if talker.waiting:
            self.waited_too_long[api(talker.waiting[0][0].key).name] += 1
        self._forget(talker)
        self._left_behind.append(talker)
        if len(self._left_behind) > _LEFT_BEHIND:
            self._left_behind.popleft().close(reset=self._random_source.random() < 0.3)

    def _leave(self, talker: Talker, *, reset: bool = False) -> None:
        self._forget(talker)
        talker.close(reset=reset)

    def _forget(self, talker: Talker) -> None:
        for talkers in self._talkers.values():
            if talker in talkers:
                talkers.remove(talker)
                self._selector.unregister(talker.socket)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
