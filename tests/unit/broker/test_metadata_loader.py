"""The broker's own image of the controller's log, over frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from broker.metadata.loader import PUBLISHING_TURN_NS, MetadataLoader
from broker.metadata.publishers import MetadataPublisher
from config.limits import METADATA_RECORDS_PER_STEP
from config.ports import Clock
from controller.metadata.image.cluster_image import EMPTY_IMAGE, ClusterImage, ImageDelta, replay
from controller.metadata.records import build_metadata_batch
from controller.metadata.snapshots import encode_snapshot
from protocol.codec.message import Message
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from protocol.metadata_log.cluster import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from protocol.metadata_log.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from protocol.peer_channel import PeerChannel, PeerError
from protocol.records.control import ControlRecordType, build_control_batch
from protocol.registry import ApiKey
from protocol.values import METADATA_TOPIC_ID
from tests.support.rigs.controllers import CLUSTER_ID, ControllerFixture
from tests.support.rigs.hand_clock import HandClock, HandTimers
from tests.support.rigs.peer_channels import ControllerPeer


class Recorder:
    """A publisher that remembers."""

    def __init__(self) -> None:
        self.published: list[tuple[ImageDelta, ClusterImage]] = []

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        self.published.append((delta, image))

    def topics(self) -> list[list[str]]:
        return [sorted(image.topics.by_name) for _, image in self.published]


def loader_of(
    channel: PeerChannel,
    clock: Clock,
    timers: HandTimers,
    *publishers: MetadataPublisher,
    is_registered: Callable[[int], bool] = lambda _: True,
) -> MetadataLoader:
    """Of node 1, not started yet."""
    return MetadataLoader(
        node_id=1,
        cluster_id=CLUSTER_ID,
        directory_id=b"d" * 16,
        channel=channel,
        clock=clock,
        timers=timers,
        publishers=publishers,
        is_registered=is_registered,
    )


def follow(
    fixture: ControllerFixture, is_registered: Callable[[int], bool] = lambda _: True
) -> tuple[MetadataLoader, Recorder, ControllerPeer]:
    peer, recorder = ControllerPeer(fixture), Recorder()
    loader = loader_of(peer, fixture.clock, fixture.timers, recorder, is_registered=is_registered)
    loader.start()
    peer.settle()
    return loader, recorder, peer


def create(fixture: ControllerFixture, *names: str) -> None:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in names
    ]
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=topics))
    assert [topic.error_code for topic in response.topics] == [0] * len(names)


def test_a_start_is_one_publication_however_long_the_log_is() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    for number in range(20):
        create(fixture, f"t{number}")
    loader, recorder, _ = follow(fixture)
    assert len(recorder.published) == 1
    assert loader.caught_up
    assert loader.image.topics == fixture.controller.image.topics
    assert loader.image.brokers == fixture.controller.image.brokers
    assert loader.offset == fixture.controller.image.offset
    delta, _ = recorder.published[0]
    assert delta.topics is not None
    assert len(delta.topics.changed) == 20


def test_each_commit_is_published_when_it_happens() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    _, recorder, peer = follow(fixture)
    create(fixture, "one")
    peer.settle()
    create(fixture, "two")
    peer.settle()
    assert recorder.topics() == [[], ["one"], ["one", "two"]]
    fixture.call(
        ApiKey.DELETE_TOPICS,
        DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="one")], timeout_ms=30_000),
    )
    peer.settle()
    delta, image = recorder.published[-1]
    assert sorted(image.topics.by_name) == ["two"]
    assert delta.topics is not None
    assert [gone.name for gone in delta.topics.deleted.values()] == ["one"]
    assert delta.brokers is None


def test_nothing_is_published_before_the_registration_of_this_start_is_in_the_image() -> None:
    """An older image says what the broker led before it went down; its log may have lost that since."""
    fixture = ControllerFixture()
    fixture.bring_up(1)
    create(fixture, "led-before")
    registered_at = fixture.controller.image.offset + 1
    loader, recorder, peer = follow(fixture, lambda offset: offset > registered_at)
    assert recorder.published == []
    assert (loader.caught_up, loader.offset) == (False, -1)
    create(fixture, "led-now")
    peer.settle()
    assert recorder.topics() == [["led-before", "led-now"]]
    assert loader.offset == fixture.controller.image.offset


def test_a_registration_that_is_answered_late_is_taken_note_of() -> None:
    """Its record may have been replayed before the answer to the request comes."""
    fixture = ControllerFixture()
    fixture.bring_up(1)
    epochs: list[int] = []
    loader, recorder, peer = follow(fixture, lambda offset: bool(epochs) and offset > epochs[0])
    assert recorder.published == []
    epochs.append(fixture.controller.image.offset)
    asked = len(peer.sent)
    loader.look_again()
    assert recorder.topics() == [[]]
    assert len(peer.sent) == asked, "the request that is under way is enough"
    create(fixture, "after")
    peer.settle()
    assert recorder.topics() == [[], ["after"]]


def test_nothing_uncommitted_is_seen() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    loader, _, peer = follow(fixture)
    topic = CreateTopicsRequest.CreatableTopic(name="soon", num_partitions=1, replication_factor=1)
    registration = fixture.services.handlers.get(ApiKey.CREATE_TOPICS)
    assert registration is not None
    context = fixture.context(ApiKey.CREATE_TOPICS, 7)
    registration.handler(fixture.services, context, CreateTopicsRequest(topics=[topic]))
    for _ in range(100):
        fixture.timers.advance(50)
    assert loader.image.topics.by_name == {}
    peer.settle()
    assert list(loader.image.topics.by_name) == ["soon"]


def test_a_quiet_cluster_is_asked_twice_a_second() -> None:
    fixture = ControllerFixture()
    _, recorder, peer = follow(fixture)
    before = len(peer.sent)
    peer.advance(10_000)
    assert 19 <= len(peer.sent) - before <= 21
    assert len(recorder.published) == 1


def test_a_controller_that_was_away_is_followed_again() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    loader, recorder, peer = follow(fixture)
    peer.connected = False
    peer.advance(3000)
    peer.connected = True
    create(fixture, "late")
    peer.advance(1000)
    assert recorder.topics()[-1] == ["late"]
    loader.stop()
    create(fixture, "unseen")
    peer.advance(1000)
    assert recorder.topics()[-1] == ["late"]


def test_a_new_epoch_of_the_controller_is_learnt_from_its_answer() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    loader, recorder, peer = follow(fixture)
    fixture.log.shut_down()
    successor = fixture.restart(timers=fixture.timers)
    peer.fixture = successor
    successor.bring_up(2)
    peer.advance(2000)
    assert sorted(recorder.published[-1][1].brokers.by_id) == [1, 2]
    epochs = {
        request.topics[0].partitions[0].current_leader_epoch
        for request in peer.sent
        if isinstance(request, FetchRequest)
    }
    assert epochs == {0, 1, 2}
    assert loader.image.epoch == 2


def test_the_broker_beside_the_controller_is_no_observer() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    follow(fixture)
    assert fixture.log.quorum(fixture.clock.wall_ms()).observers == []


def test_a_long_publication_lets_others_have_their_turn() -> None:
    class Slow:
        """A publisher whose every step takes as long as a whole turn may."""

        def __init__(self, clock: HandClock) -> None:
            self.clock = clock
            self.steps = 0

        def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
            raise AssertionError("it is taken in steps")

        def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]:
            for _ in range(5):
                self.steps += 1
                self.clock.move(20)
                yield

    fixture = ControllerFixture()
    fixture.bring_up(1)
    peer, slow, recorder = ControllerPeer(fixture), Slow(fixture.clock), Recorder()
    loader = loader_of(peer, fixture.clock, fixture.timers, slow, recorder)
    between: list[int] = []

    def look() -> None:
        between.append(slow.steps)
        if not loader.caught_up:
            fixture.timers.call_soon(look)

    fixture.timers.call_soon(look)
    loader.start()
    peer.settle()
    assert loader.caught_up
    assert {1, 2, 3, 4} <= set(between), "others had a turn after each step"
    assert slow.steps == 5
    assert len(recorder.published) == 1, "the next publisher comes after the last step"


class EachLookATurn(HandClock):
    """Whoever looks twice has used up his turn."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0

    def monotonic_ns(self) -> int:
        self._looks += 1
        return self._looks * 2 * PUBLISHING_TURN_NS


def turns_until(loader: MetadataLoader, timers: HandTimers, offset: int) -> int:
    """How often others had their turn before the loader had published up to there."""
    turns = 0
    while loader.offset < offset:
        assert timers.run_once(), "nothing more happens"
        turns += 1
    return turns


def test_a_batch_of_thousands_of_records_is_taken_in_over_many_turns() -> None:
    fixture = ControllerFixture()
    fixture.bring_up(1)
    peer, recorder = ControllerPeer(fixture), Recorder()
    loader = loader_of(peer, EachLookATurn(), fixture.timers, recorder)
    loader.start()
    peer.settle()
    wide = CreateTopicsRequest.CreatableTopic(name="wide", num_partitions=3000, replication_factor=1)
    response = fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[wide]))
    assert response.topics[0].error_code == 0
    turns = turns_until(loader, fixture.timers, fixture.controller.image.offset)
    assert turns >= 2 * 3000 // METADATA_RECORDS_PER_STEP, "decoded and replayed a few at a time"
    assert recorder.topics() == [[], ["wide"]], "and shown at once"
    assert loader.image.topics == fixture.controller.image.topics


class SnapshotPeer:
    """A controller whose log begins with a snapshot, sent in pieces. batch: what follows it."""

    def __init__(self, timers: HandTimers, content: bytes, end_offset: int) -> None:
        self.high_watermark = end_offset
        self._timers = timers
        self._content = content
        self._end_offset = end_offset
        self.batch = b""
        self.waiting = 0

    def send(
        self, request: Message, on_response: Callable[[Message | PeerError], None], *, timeout_ms: int
    ) -> None:
        answer: Message | None
        if isinstance(request, FetchSnapshotRequest):
            answer = self._piece(request.topics[0].partitions[0].position)
        else:
            assert isinstance(request, FetchRequest)
            answer = self._fetched(request.topics[0].partitions[0].fetch_offset)
        if answer is None:
            self.waiting += 1
        else:
            self._timers.call_soon(partial(on_response, answer))

    def _fetched(self, offset: int) -> FetchResponse | None:
        data = FetchResponse.PartitionData(high_watermark=self.high_watermark)
        if offset == 0:
            data.snapshot_id = FetchResponse.SnapshotId(self._end_offset, 1)
        elif offset == self._end_offset and self.batch:
            data.records = self.batch
        elif self.waiting and self.high_watermark >= 0:
            return None
        else:
            self.waiting = 1
        topic = FetchResponse.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
        return FetchResponse(responses=[topic])

    def _piece(self, position: int) -> FetchSnapshotResponse:
        piece = FetchSnapshotResponse.PartitionSnapshot(
            size=len(self._content),
            position=position,
            unaligned_records=self._content[position : position + 50_000],
        )
        return FetchSnapshotResponse(topics=[FetchSnapshotResponse.TopicSnapshot(partitions=[piece])])


def test_a_snapshot_is_loaded_over_many_turns() -> None:
    made = b"w" * 16
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        TopicRecord(name="wide", topic_id=made),
        *(
            PartitionRecord(partition_id=index, topic_id=made, replicas=[1], isr=[1], leader=1)
            for index in range(3000)
        ),
    ]
    content = encode_snapshot(records, epoch=1, now_ms=5, last_contained_timestamp_ms=4)
    clock = HandClock()
    timers = HandTimers(clock)
    recorder = Recorder()
    loader = loader_of(SnapshotPeer(timers, content, 4000), EachLookATurn(), timers, recorder)
    loader.start()
    turns = turns_until(loader, timers, 3999)
    assert turns >= 2 * 3000 // METADATA_RECORDS_PER_STEP
    assert recorder.topics() == [["wide"]]
    assert loader.image == replay(EMPTY_IMAGE, records, offset=3999, epoch=1, timestamp_ms=4)[0]


def test_nothing_is_published_while_the_high_watermark_is_unknown() -> None:
    """The own snapshot is older than what this broker has seen in its last life: by its image, logs of newer
    partitions would be strays."""
    records = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    content = encode_snapshot(records, epoch=1, now_ms=5, last_contained_timestamp_ms=4)
    clock = HandClock()
    timers = HandTimers(clock)
    recorder = Recorder()
    peer = SnapshotPeer(timers, content, 40)
    peer.high_watermark = -1
    loader = loader_of(peer, clock, timers, recorder)
    loader.start()
    for _ in range(100):
        timers.run_once()
    assert recorder.published == []
    assert loader.offset == -1
    peer.high_watermark, peer.waiting = 40, 0
    turns_until(loader, timers, 39)
    assert len(recorder.published) == 1


def test_a_snapshot_is_published_together_with_what_follows_it() -> None:
    """It may say that the broker leads a partition, and the records after it, with the registration of this
    start, that it does so no longer: nobody may take up the first alone."""
    made = b"t" * 16
    topic = TopicRecord(name="led-before", topic_id=made)
    led = PartitionRecord(partition_id=0, topic_id=made, replicas=[1, 2], isr=[1, 2], leader=1)
    content = encode_snapshot([topic, led], epoch=1, now_ms=5, last_contained_timestamp_ms=4)
    timers = HandTimers(HandClock())
    recorder = Recorder()
    peer = SnapshotPeer(timers, content, 40)
    peer.high_watermark = 41
    moved = PartitionChangeRecord(partition_id=0, topic_id=made, leader=2)
    peer.batch = bytes(build_metadata_batch([moved], base_offset=40, epoch=1, timestamp_ms=6))
    loader = loader_of(peer, EachLookATurn(), timers, recorder, is_registered=lambda offset: offset > 40)
    loader.start()
    turns_until(loader, timers, 40)
    leaders = [image.topics.by_name["led-before"].partitions[0].leader for _, image in recorder.published]
    assert leaders == [2]


def test_what_lies_before_a_transaction_has_the_place_at_which_its_batch_ends() -> None:
    """Control batches have offsets and no records; a snapshot of the image begins where the image says."""
    content = encode_snapshot([], epoch=1, now_ms=5, last_contained_timestamp_ms=4)
    timers = HandTimers(HandClock())
    recorder = Recorder()
    peer = SnapshotPeer(timers, content, 10)
    peer.high_watermark = 25
    configs = [ConfigRecord(resource_type=4, name=f"c{number}", value="1") for number in range(11)]
    transaction = [BeginTransactionRecord(), configs[10], EndTransactionRecord()]
    for batch in (
        leader_change(10, epoch=2),
        build_metadata_batch(configs[:10], base_offset=11, epoch=2, timestamp_ms=6),
        build_metadata_batch(transaction, base_offset=21, epoch=2, timestamp_ms=7),
        leader_change(24, epoch=3),
    ):
        peer.batch += bytes(batch)
    loader = loader_of(peer, EachLookATurn(), timers, recorder)
    loader.start()
    turns_until(loader, timers, 24)
    assert [(image.offset, image.epoch) for _, image in recorder.published] == [(20, 2), (24, 3)]
    assert [len(image.configs.of(4, "")) for _, image in recorder.published] == [10, 11]


def leader_change(offset: int, *, epoch: int) -> bytearray:
    return build_control_batch(
        [(ControlRecordType.LEADER_CHANGE, b"")], timestamp_ms=6, base_offset=offset, leader_epoch=epoch
    )
