"""A client of the simulated cluster: a machine of its own, from which tasks ask the brokers over the wire."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from broker.controller_channel.peer.tcp import TcpPeer
from broker.network.memory import RequestMemory
from broker.simulation.cluster.memory_network import MemoryNetwork
from broker.simulation.cluster.surroundings import Machine
from broker.simulation.cluster.tasks import Awaited, Task, sleep
from config.limits import KIB, MIB
from protocol.codec.message import Message
from protocol.peer_channel import PeerError

__all__ = ["SimulatedClient"]

REQUEST_TIMEOUT_MS: Final = 30_000
_MEMORY_BYTES: Final = 16 * MIB
_SCRATCH_BYTES: Final = 256 * KIB


class SimulatedClient:
    """name: in the network, in histories and in stories. What it does is a subclass's `run`, or what others
    let it do. Each address that it asks has one connection, or one for each lane of requests.

    is_patient: whether requests to a broker that cannot be reached wait for it, as far as their time allows;
    else they fail at once. last_versions: by API key, beyond which it does not go.
    """

    def __init__(self, network: MemoryNetwork, name: str, seed: int) -> None:
        self.name = name
        self.machine = Machine(network, name, seed)
        self.random = self.machine.random
        self.surroundings = self.machine.surroundings()
        self.tasks: list[Task] = []
        self.is_patient = True
        self.last_versions: dict[int, int] = {}
        self._peers: dict[tuple[str, int, int], TcpPeer] = {}
        self._memory = RequestMemory(_MEMORY_BYTES, scratch_bytes=_SCRATCH_BYTES)
        """For all of them, as in a real process: it is used within one call."""

    def now_ms(self) -> int:
        """By its monotonic clock."""
        return self.surroundings.clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self.surroundings.clock.wall_ms()

    def begin(self, coroutine: Coroutine[Any, None, None]) -> Task:
        """Lets a task run beside the others."""
        task = Task(self.surroundings.timers, coroutine)
        self.tasks = [each for each in self.tasks if not each.is_over] + [task]
        return task

    @property
    def is_over(self) -> bool:
        """Nothing that it began is still under way."""
        return all(task.is_over for task in self.tasks)

    async def sleep_ms(self, duration_ms: int) -> None:
        await sleep(self.surroundings.timers, self.now_ms() + duration_ms)

    async def ask(
        self, host: str, port: int, request: Message, *, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Message | PeerError:
        """The answer, or why there is none. Record bytes of an answer are valid until the next await."""
        answer: Awaited[Message | PeerError] = Awaited()
        self._peer(host, port, self.lane(request)).send(request, answer.settle, timeout_ms=timeout_ms)
        return await answer

    def lane(self, request: Message) -> int:
        """Requests of different lanes go over different connections: a broker answers those of one connection
        one after the other, however long one of them waits."""
        del request
        return 0

    def send(self, host: str, port: int, request: Message) -> None:
        """For what gets no answer (Produce with acks=0)."""
        lane = self.lane(request)
        self._peer(host, port, lane).send(request, lambda _: None, timeout_ms=REQUEST_TIMEOUT_MS)

    def _peer(self, host: str, port: int, lane: int) -> TcpPeer:
        address = (host, port, lane)
        if address not in self._peers:
            surroundings = self.surroundings
            self._peers[address] = TcpPeer(
                host,
                port,
                network=surroundings.network,
                clock=surroundings.clock,
                timers=surroundings.timers,
                memory=self._memory,
                client_id=self.name,
                is_patient=self.is_patient,
                last_versions=self.last_versions,
            )
        return self._peers[address]

    def hang_up(self, host: str, port: int) -> None:
        """Gives up a connection, as a client does that waited too long; the next request makes another."""
        for address in [each for each in self._peers if each[:2] == (host, port)]:
            self._peers.pop(address).close_channel()

    def kill(self) -> None:
        """Its process ends in the middle of whatever it does."""
        for task in self.tasks:
            task.cancel()
        self.tasks.clear()
        self._peers.clear()
        self.machine.close()
