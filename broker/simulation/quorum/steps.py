"""The steps of a run: what befalls a quorum, and what its clients and operators ask of it.

A step is a time, a verb, a number for whom or how much, and a number of random bits. While a run is made
up, the verb is drawn by the fault plan and the rest by random numbers; when it is run again (replayed,
shrunk) the same steps come from a list. Whatever a step finds impossible at its moment does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from broker.simulation.quorum.fault_plan import VERBS
from broker.simulation.quorum.network import Token
from controller.raft.identity import Address, ReplicaKey
from protocol.codec.message import Message
from protocol.messages.add_raft_voter import AddRaftVoterRequest
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from broker.simulation.quorum.machine import Machine
    from broker.simulation.quorum.world import World

__all__ = ["Step", "play", "verb_of"]

SHUT_DOWN_MS: Final = 1_000
ADD_VOTER_TIMEOUT_MS: Final = 3_000
LARGEST_CRASH_DELAY: Final = 12
"""A crash within a Ready comes before one of so many effects."""


class Step(msgspec.Struct, frozen=True):
    """at: microseconds from the beginning."""

    at: int
    verb: str
    whom: int
    random_bits: int

    def __str__(self) -> str:
        return f"{self.at / 1e6:10.3f}  {self.verb} {self.whom} {self.random_bits}"


def verb_of(point: int) -> str:
    return VERBS[point]


def play(world: World, step: Step) -> None:
    """Does what the step says; the trace tells it."""
    machines = world.machines
    machine = machines[step.whom % len(machines)]
    match step.verb:
        case "append":
            _append(world, step)
        case "crash":
            _crash(world, machine, step.random_bits)
        case "restart":
            _restart(world, step)
        case "pause":
            if machine.is_up and not machine.is_paused:
                world.coverage.count("pause")
                world.trace_line(machine, "stands still")
                machine.pause()
        case "resume":
            for each in machines:
                if each.is_paused:
                    world.trace_line(each, "goes on")
                    each.resume()
        case "cut" | "isolate" | "heal":
            _network(world, step)
        case "snapshot":
            if machine.take_snapshot(step.random_bits % 3):
                world.coverage.count("snapshot taken")
                world.trace_line(machine, "takes a snapshot")
        case "trim":
            if machine.trim():
                world.trace_line(machine, "drops the log before its snapshot")
        case "drift":
            world.coverage.count("clock drifts")
            machine.set_rate(900 + step.random_bits % 201)
            world.trace_line(machine, f"its clock runs at {90 + step.random_bits % 201 / 10:.1f} %")
        case "move":
            _move(world, machine)
        case "wipe":
            _wipe(world, machine)
        case _:
            _operate(world, step)


def leaders(world: World) -> list[Machine]:
    """Who takes himself for the leader; more than one while the news travel."""
    return [each for each in world.machines if each.is_up and world.role_name(each) == "Leader"]


def _leader(world: World, step: Step) -> Machine | None:
    found = leaders(world)
    return found[step.random_bits % len(found)] if found else None


def _append(world: World, step: Step) -> None:
    leader = _leader(world, step)
    if leader is None:
        return
    for _ in range(1 + step.whom % 2):
        world.append(leader, step.random_bits)


def _crash(world: World, machine: Machine, random_bits: int) -> None:
    if not machine.is_up:
        return
    machine.random_bits = random_bits >> 8
    after = random_bits % LARGEST_CRASH_DELAY
    if after == 0:
        machine.crash()
    else:
        machine.crash_after = after - 1


def _restart(world: World, step: Step) -> None:
    down = [each for each in world.machines if not each.is_up]
    if down:
        world.coverage.count("restart")
        down[step.random_bits % len(down)].start()


def _network(world: World, step: Step) -> None:
    count = len(world.machines)
    if step.verb == "heal":
        world.network.heal()
        world.trace_line(None, "all links are whole")
    elif step.verb == "cut":
        a, b = step.whom % count, step.random_bits % count
        if a != b:
            world.coverage.count("link cut one way")
            world.network.cut(a, b)
            world.trace_line(None, f"nothing passes from n{a + 1} to n{b + 1}")
    else:
        inside = step.random_bits % (1 << count)
        if 0 < inside < (1 << count) - 1:
            world.coverage.count("partition")
            world.network.isolate(inside, count)
            names = [f"n{each + 1}" for each in range(count) if inside >> each & 1]
            world.trace_line(None, f"{', '.join(names)} cut off from the others")


def _move(world: World, machine: Machine) -> None:
    """A host that is down comes up at another address."""
    if machine.is_up or not machine.config.can_be_voter or not world.can_spare(machine):
        return
    world.coverage.count("address changed")
    port = next(iter(machine.config.endpoints.values())).port + 100
    address = Address(f"n{machine.id}", port)
    world.move(machine, address)
    world.trace_line(machine, f"moves to port {port}")


def _wipe(world: World, machine: Machine) -> None:
    """The disk of a host that is down breaks: what it was is lost, it begins anew as another replica."""
    if (
        machine.is_up
        or not machine.config.can_be_voter
        or not world.fault_plan.dynamic
        or not world.can_spare(machine)
    ):
        return
    world.coverage.count("disk lost")
    world.wipe(machine)
    world.trace_line(machine, "gets an empty disk")


def _operate(world: World, step: Step) -> None:
    """What operators ask for."""
    leader = _leader(world, step)
    machine = world.machines[step.whom % len(world.machines)]
    match step.verb:
        case "add-voter" if leader is not None:
            listeners = [
                AddRaftVoterRequest.Listener(name=name, host=address.host, port=address.port)
                for name, address in machine.config.endpoints.items()
            ]
            request = AddRaftVoterRequest(
                cluster_id=machine.config.cluster_id,
                timeout_ms=ADD_VOTER_TIMEOUT_MS,
                voter_id=machine.id,
                voter_directory_id=machine.key.directory_id,
                listeners=listeners,
                ack_when_committed=step.random_bits & 0x100 == 0,
            )
            _ask(world, leader, request, f"is asked to add n{machine.id}")
        case "remove-voter" if leader is not None:
            key = _voter_to_remove(world, leader, step)
            if key is not None:
                remove = RemoveRaftVoterRequest(
                    cluster_id=leader.config.cluster_id,
                    voter_id=key.id,
                    voter_directory_id=key.directory_id,
                )
                _ask(world, leader, remove, f"is asked to remove n{key.id}")
        case "upgrade" if leader is not None:
            world.trace_line(leader, "is asked for kraft.version 1")
            leader.upgrade_kraft_version()
        case "resign" if leader is not None:
            world.trace_line(leader, "is asked to resign")
            world.coverage.count("resignation asked for")
            leader.resign()
        case "shut-down" if machine.is_up:
            world.trace_line(machine, "is asked to shut down")
            world.coverage.count("clean shutdown")
            machine.random_bits = step.random_bits >> 8
            machine.shut_down(SHUT_DOWN_MS)
        case "quiet":
            world.calm_begins()


def _voter_to_remove(world: World, leader: Machine, step: Step) -> ReplicaKey | None:
    """One of the voters, so that three remain if there were that many at first."""
    keys = leader.disk.voters.electorate
    if len(keys) <= min(3, world.fault_plan.voters):
        return None
    return keys[step.whom % len(keys)]


def _ask(world: World, leader: Machine, message: Message, text: str) -> None:
    world.trace_line(leader, text)
    token = Token(None, 0, world.next_request_id(), message)
    leader.request_arrived(token)
