"""A broker's life at a controller in memory; time moves by hand."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from broker.controller_channel.lifecycle import BrokerIdentity, BrokerLifecycle, BrokerState
from controller.metadata.image.brokers import BrokerEndpoint
from controller.metadata.supported_features import SUPPORTED_FEATURES
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.registry import ApiKey
from tests.support.rigs.controllers import CLUSTER_ID, ControllerFixture
from tests.support.rigs.peer_channels import ControllerPeer


class Life:
    """A lifecycle whose metadata has always caught up, unless the test holds it back."""

    def __init__(self, fixture: ControllerFixture | None = None, **changes: Any) -> None:
        self.fixture = fixture or ControllerFixture()
        self.peer = ControllerPeer(self.fixture)
        self.states: list[BrokerState] = []
        self.failures: list[str] = []
        self.gone: list[bool] = []
        self.metadata_offset: int | None = None
        self.cordoned: list[bytes] | None = None
        identity = {
            "node_id": 1,
            "cluster_id": CLUSTER_ID,
            "endpoints": MappingProxyType({"PLAINTEXT": BrokerEndpoint("127.0.0.1", 9092, 0)}),
            "features": SUPPORTED_FEATURES,
            "log_dirs": (b"d" * 16,),
            **changes,
        }
        self.lifecycle = BrokerLifecycle(
            BrokerIdentity(**identity),
            channel=self.peer,
            clock=self.fixture.clock,
            timers=self.fixture.timers,
            random_source=self.fixture.random_source,
            metadata_offset=self._offset,
            heartbeat_interval_ms=2000,
            session_timeout_ms=9000,
            registration_timeout_ms=60_000,
            on_state=self.states.append,
            on_failure=self.failures.append,
            cordoned_dirs=lambda: self.cordoned,
        )

    def _offset(self) -> int:
        return self.fixture.log.high_watermark if self.metadata_offset is None else self.metadata_offset

    @property
    def registered(self) -> Any:
        return self.fixture.controller.image.brokers.get(1)

    def heartbeats(self) -> list[BrokerHeartbeatRequest]:
        return [r for r in self.peer.sent if isinstance(r, BrokerHeartbeatRequest)]

    def run(self) -> Life:
        self.lifecycle.start()
        self.lifecycle.ready_to_unfence()
        self.peer.settle()
        return self


def test_a_ready_broker_registers_and_is_unfenced_without_waiting() -> None:
    life = Life().run()
    assert life.states == [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]
    assert life.lifecycle.epoch == life.registered.epoch >= 0
    assert not life.registered.fenced
    assert not life.lifecycle.fenced


def test_a_broker_stays_fenced_until_it_has_seen_its_own_registration() -> None:
    life = Life()
    life.metadata_offset = -1
    life.run()
    life.peer.advance(4000)
    assert life.states == [BrokerState.STARTING]
    assert life.registered.fenced
    life.metadata_offset = life.lifecycle.epoch
    life.lifecycle.metadata_advanced()
    life.peer.settle()
    assert life.states[-1] is BrokerState.RUNNING
    assert not life.registered.fenced


def test_a_broker_that_is_not_ready_asks_to_stay_fenced() -> None:
    life = Life()
    life.lifecycle.start()
    life.peer.advance(5000)
    assert life.states == [BrokerState.STARTING, BrokerState.RECOVERY]
    assert all(heartbeat.want_fence for heartbeat in life.heartbeats())
    assert life.registered.fenced
    life.lifecycle.ready_to_unfence()
    life.peer.settle()
    assert life.states[-1] is BrokerState.RUNNING


def test_cordoned_directories_are_told_when_the_broker_has_caught_up_and_when_they_change() -> None:
    first, second = b"d" * 16, b"e" * 16
    life = Life(log_dirs=(first, second))
    life.cordoned = [second]
    life.metadata_offset = -1
    life.run()
    assert life.heartbeats()
    assert life.registered.cordoned_log_dirs is None, "its configs may be older than its last life"
    life.metadata_offset = None
    life.lifecycle.metadata_advanced()
    life.peer.settle()
    assert life.registered.usable_log_dirs == (first,)
    for cordoned in ([first, second], []):
        life.cordoned = cordoned
        life.lifecycle.cordoned_dirs_changed()
        life.peer.settle()  # without waiting for the next heartbeat
        assert life.registered.cordoned_log_dirs == tuple(cordoned)
    before = life.registered
    life.cordoned = None  # the metadata version was lowered
    life.peer.advance(4000)
    assert life.registered == before


def test_heartbeats_go_out_every_interval_and_keep_the_session() -> None:
    life = Life().run()
    before = len(life.heartbeats())
    life.peer.advance(20_000)
    assert 9 <= len(life.heartbeats()) - before <= 10
    assert not life.registered.fenced


def test_a_silent_broker_is_fenced_and_comes_back_without_a_new_registration() -> None:
    life = Life().run()
    epoch = life.lifecycle.epoch
    life.peer.silent = True
    life.peer.advance(12_000)
    assert life.registered.fenced
    life.peer.silent = False
    life.peer.advance(12_000)
    assert not life.registered.fenced
    assert life.registered.epoch == life.lifecycle.epoch == epoch


def test_an_unreachable_controller_is_tried_until_it_answers() -> None:
    life = Life()
    life.peer.connected = False
    life.run()
    life.peer.advance(10_000)
    assert life.states == [BrokerState.STARTING]
    assert len(life.peer.sent) < 20, "the pause between tries grows"
    life.peer.connected = True
    life.peer.advance(2000)
    assert life.states[-1] is BrokerState.RUNNING


def test_a_broker_that_cannot_register_in_time_gives_up_with_a_sentence() -> None:
    life = Life()
    life.peer.connected = False
    life.run()
    life.peer.advance(62_000, step=500)
    assert len(life.failures) == 1
    assert "60000 ms (initial.broker.registration.timeout.ms): disconnected" in life.failures[0]
    assert life.states[-1] is BrokerState.SHUTTING_DOWN


def test_a_refusal_that_no_waiting_heals_ends_the_start_at_once() -> None:
    life = Life(cluster_id="another").run()
    assert len(life.failures) == 1
    assert "INCONSISTENT_CLUSTER_ID" in life.failures[0]


def test_a_leaving_broker_hands_over_and_may_go() -> None:
    fixture = ControllerFixture()
    life = Life(fixture).run()
    topic = CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=2, replication_factor=1)
    fixture.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
    life.lifecycle.begin_controlled_shutdown(30_000, life.gone.append)
    life.peer.advance(1000)
    assert life.gone == [True]
    assert life.states[-2:] == [BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN]
    assert life.registered.fenced
    leaders = {p.leader for p in fixture.controller.image.topics.by_name["orders"].partitions.values()}
    assert leaders == {-1}


def test_a_leaving_broker_does_not_wait_for_ever() -> None:
    life = Life().run()
    life.peer.silent = True
    life.lifecycle.begin_controlled_shutdown(5_000, life.gone.append)
    life.peer.advance(4_900)
    assert life.gone == []
    life.peer.advance(200)
    assert life.gone == [False]


def test_a_leaving_broker_waits_while_the_controller_answers() -> None:
    """There may be thousands of leaderships to move."""
    life = Life().run()
    life.peer.instead = BrokerHeartbeatResponse(is_fenced=False, should_shut_down=False)
    life.lifecycle.begin_controlled_shutdown(60_000, life.gone.append, silence_ms=5_000)
    life.peer.advance(30_000)
    assert life.gone == []
    life.peer.silent = True
    life.peer.advance(4_000)
    assert life.gone == []
    life.peer.advance(2_000)
    assert life.gone == [False]


def test_a_broker_that_never_registered_just_goes() -> None:
    life = Life()
    life.peer.connected = False
    life.lifecycle.start()
    life.lifecycle.begin_controlled_shutdown(5_000, life.gone.append)
    assert life.gone == [False]
    sent = len(life.peer.sent)
    life.peer.advance(5_000)
    assert len(life.peer.sent) == sent


def test_the_next_life_of_a_killed_broker_is_not_refused() -> None:
    life = Life().run()
    fixture = life.fixture
    life.lifecycle.stop()
    fixture.files.kill_process()
    successor = Life(fixture.restart()).run()
    assert successor.states[-1] is BrokerState.RUNNING
    assert successor.lifecycle.epoch > life.lifecycle.epoch


def test_a_directory_that_failed_is_told_with_the_next_heartbeat_and_all_that_follow() -> None:
    life = Life(log_dirs=(b"d" * 16, b"e" * 16)).run()
    life.lifecycle.directory_failed(b"e" * 16, 30_000)
    life.peer.settle()
    assert life.heartbeats()[-1].offline_log_dirs == [b"e" * 16]
    assert life.registered.log_dirs == (b"d" * 16,)
    life.peer.advance(60_000)
    assert life.heartbeats()[-1].offline_log_dirs == [b"e" * 16]
    assert life.failures == []


def test_a_broker_that_cannot_tell_of_a_failed_directory_ends() -> None:
    life = Life(log_dirs=(b"d" * 16, b"e" * 16)).run()
    life.peer.connected = False
    life.lifecycle.directory_failed(b"e" * 16, 30_000)
    life.peer.advance(29_000)
    assert life.failures == []
    life.peer.advance(2_000)
    (sentence,) = life.failures
    assert sentence.startswith("Shutting down because couldn't communicate offline log dir ZWVl")


def test_a_failed_directory_that_cannot_be_told_does_not_hold_up_a_leaving_broker() -> None:
    """Its deadline passes while the controller does not agree to the shutdown, which is bounded anyway."""
    life = Life(log_dirs=(b"d" * 16, b"e" * 16)).run()
    life.peer.connected = False
    life.lifecycle.directory_failed(b"e" * 16, 30_000)
    life.peer.advance(27_000)
    life.lifecycle.begin_controlled_shutdown(300_000, life.gone.append, silence_ms=5_000)
    life.peer.advance(4_000)
    assert (life.gone, life.failures) == ([], [])
    life.peer.advance(6_000)
    assert (life.gone, life.failures) == ([False], [])
    assert life.states[-1] is BrokerState.SHUTTING_DOWN
