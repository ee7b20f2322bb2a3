"""Replicas of the metadata log with their real driver and disk code, in memory: files that can lose power,
helper threads that run when the test says so, peers joined by frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

from config.broker_config import BrokerConfig
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.image.replayer import ImageReplayer, MetadataBatch
from controller.metadata.log import LeaderAndEpoch, SnapshotId
from controller.metadata.log_opening import open_replica, raft_config
from controller.metadata.replicated_log import ReplicatedMetadataLog
from controller.metadata.snapshots import encode_snapshot
from controller.raft.snapshot_files import FORMAT_SNAPSHOT, write_snapshot
from protocol.codec.message import Message
from protocol.framing import decode_response, encode_response_frame
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.metadata_log.cluster import ConfigRecord
from protocol.peer_channel import PeerError
from protocol.primitives import Records
from protocol.registry import api
from protocol.serving.pending import Pending
from storage.memory_files import MemoryFiles
from storage.slices import LogSlice
from tests.support.rigs.controllers import CLUSTER_ID, METADATA_LOG, HandOffload, one_node_config
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.raft_rig import Stubborn, directory, voters_record


def config_record(number: int) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=f"key{number}", value=str(number))


class Heard:
    """A listener: what it was told, and the image that follows from it."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.leaders: list[LeaderAndEpoch] = []
        self.snapshots: list[SnapshotId] = []
        self._replayer = ImageReplayer()

    @property
    def image(self) -> ClusterImage:
        return self._replayer.image

    def load_snapshot(self, snapshot: SnapshotId, image: ClusterImage) -> None:
        self.snapshots.append(snapshot)
        self._replayer.reset(image)

    def commit(self, batch: MetadataBatch) -> None:
        self._replayer.replay_batch(batch)
        self.numbers += [
            int(record.value or 0) for record in batch.records if isinstance(record, ConfigRecord)
        ]

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)


class ReplicaRig:
    """One node; `begin` its first life, `kill` or `cut_power` end one."""

    def __init__(self, world: ReplicaWorld, node_id: int, **settings: str) -> None:
        self.world = world
        self.node_id = node_id
        self.files = MemoryFiles(world.clock.wall_ms)
        self.config = node_config(node_id, **settings)
        self.is_up = False
        self.heard = Heard()
        self.offload = HandOffload()
        self.log: ReplicatedMetadataLog

    def format(self, voters: Sequence[int]) -> None:
        record = voters_record(*voters)
        self.files.makedirs(METADATA_LOG)
        content = encode_snapshot((), epoch=0, now_ms=0, last_contained_timestamp_ms=0, voters=record)
        write_snapshot(self.files, METADATA_LOG, FORMAT_SNAPSHOT, content)

    def begin(self) -> ReplicaRig:
        self.heard = Heard()
        self.offload = HandOffload()
        quorum = raft_config(
            self.config,
            cluster_id=CLUSTER_ID,
            directory_id=directory(self.node_id),
            endpoints=endpoints(self.node_id),
        )
        self.is_up = True
        self.log = open_replica(
            self.config,
            quorum,
            files=self.files,
            clock=self.world.clock,
            timers=self.world.timers,
            offload=self.offload,
            random_source=Stubborn(self.node_id),
            make_channel=lambda host, port: RigChannel(self.world, self, port - 9000),
        )
        self.log.start()
        self.log.register(self.heard)
        return self

    def end(self) -> None:
        """The process is gone; nothing of it happens any more."""
        self.is_up = False
        self.log._driver.stop()

    def kill(self) -> None:
        self.end()
        self.files.kill_process()

    def cut_power(self) -> None:
        self.end()
        self.files.cut_power()

    @property
    def is_leader(self) -> bool:
        return self.is_up and self.log.leader.leader_id == self.node_id

    def append(self, *numbers: int) -> None:
        self.log.append(self.log.leader.epoch, [config_record(number) for number in numbers])


def endpoints(node_id: int) -> MappingProxyType[str, BrokerEndpoint]:
    return MappingProxyType({"CONTROLLER": BrokerEndpoint(f"host{node_id}", 9000 + node_id, 0)})


def node_config(node_id: int, **settings: str) -> BrokerConfig:
    return one_node_config(
        node__id=str(node_id),
        controller__quorum__bootstrap__servers=",".join(f"host{each}:{9000 + each}" for each in (1, 2, 3)),
        **settings,
    )


def _content(piece: Records) -> bytes:
    """What the network would send."""
    if isinstance(piece, LogSlice):
        return piece.read()
    assert isinstance(piece, bytes | bytearray | memoryview)
    return bytes(piece)


class RigChannel:
    """A way to another rig: answers cross as bytes; who is down or cut off is not reached."""

    def __init__(self, world: ReplicaWorld, source: ReplicaRig, target: int) -> None:
        self._world = world
        self._source = source
        self._target = target

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        self._world.timers.call_soon(lambda: self._carry(request, on_response))

    def _carry(self, request: Message, on_response: Callable[[Message | PeerError], None]) -> None:
        rig = self._world.rigs.get(self._target)
        cut = frozenset((self._source.node_id, self._target)) in self._world.cut
        if rig is None or not rig.is_up or cut:
            on_response(PeerError("not reached"))
            return
        if isinstance(request, ApiVersionsRequest):
            feature = ApiVersionsResponse.SupportedFeatureKey("kraft.version", 0, 1)
            on_response(ApiVersionsResponse(supported_features=[feature]))
            return
        version = api(request.declaration.key or 0).versions.last
        pending: Pending[Message] = rig.log.ask(request, version=version, listener="CONTROLLER")

        def answered(response: Message) -> None:
            content = b"".join(map(_content, encode_response_frame(response, version, 7)))
            _, copy = decode_response(type(response), version, memoryview(content)[4:])
            self._world.timers.call_soon(lambda: on_response(copy))

        pending.on_complete(answered)

    def close_channel(self) -> None:
        """Nothing to close."""


class ReplicaWorld:
    """Some rigs under one clock."""

    def __init__(
        self, *node_ids: int, voters: Sequence[int] | None = None, formatted: bool = True, **settings: str
    ) -> None:
        self.clock = HandClock()
        self.timers = HandTimers(self.clock)
        self.cut: set[frozenset[int]] = set()
        self.rigs = {node_id: ReplicaRig(self, node_id, **settings) for node_id in node_ids}
        for node_id in (voters or node_ids) if formatted else ():
            self.rigs[node_id].format(voters or node_ids)
        for rig in self.rigs.values():
            rig.begin()

    def settle(self) -> None:
        """What can happen in no time happens, disks included."""
        while self.timers.run_soon() or sum(rig.offload.run() for rig in self.rigs.values() if rig.is_up):
            pass

    def run(self, milliseconds: int) -> None:
        for _ in range(0, milliseconds, 10):
            self.settle()
            self.timers.advance(10)
        self.settle()

    def leader(self) -> ReplicaRig:
        for _ in range(100):
            leaders = [rig for rig in self.rigs.values() if rig.is_leader]
            if leaders:
                return max(leaders, key=lambda rig: rig.log.leader.epoch)
            self.run(200)
        raise AssertionError("nobody is elected")

    def followers(self) -> list[ReplicaRig]:
        return [rig for rig in self.rigs.values() if rig.is_up and not rig.is_leader]
