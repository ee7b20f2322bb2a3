"""Each rule of a cluster strikes when it is broken, and none strikes in a cluster where nothing is wrong."""

from __future__ import annotations

import errno
from collections.abc import Callable
from struct import pack_into, unpack_from
from typing import Any

import msgspec
import pytest

from broker.coordinator.group_coordinator import GroupCoordinator
from broker.replication.partition import Partition
from broker.replication.partition_state import CommittedPartitionState
from broker.replication.roles import Leader
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.rules import fault_rules, log_rules, metadata_rules, partition_rules
from broker.simulation.rules.seen_logs import SeenBatch
from broker.simulation.rules.wellness import reason_not_well
from broker.simulation.verdict import ContainedError, only_contained_errors, without_logs
from controller.metadata.image.topics import TopicsImage
from controller.raft.node import RaftNode
from storage.directories import FailedDirectory
from storage.memory_files import lose_all
from tests.simulation.traffic import LIMIT_MS, NODES, TOPIC, Traffic, becomes, on_leader, strikes


def first_batch_bytes(content: bytearray) -> int:
    """How long the first batch of a log is."""
    return int(unpack_from(">i", content, 8)[0]) + 12


def test_a_cluster_with_traffic_breaks_no_rule_and_all_is_looked_at(traffic: Traffic) -> None:
    traffic.write(20)
    counts = traffic.world.coverage.counts
    assert counts["looked at: leader of a partition"] > 20
    assert counts["looked at: high watermark beside the ISR"] > 20
    assert counts["looked at: registration of a partition"] >= len(NODES)
    assert counts["looked at: batches of a log"] >= 23 * len(NODES)
    assert counts["looked at: commitment by a leader"] == 23
    assert counts["looked at: log beside what is committed"] >= 23 * len(traffic.followers)
    assert counts["looked at: log of a new leader"] > 0
    assert counts["looked at: image beside another node's"] > 20
    assert counts["looked at: leader of the quorum"] > 0
    assert counts["looked at: committed metadata log"] > 20


def test_an_exception_that_a_node_contains(traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(GroupCoordinator, "list_groups", fail)
    with only_contained_errors(traffic.world.contained.append):
        strikes(fault_rules.CONTAINED, lambda: traffic.until_over(traffic.list_groups()))
    (told,) = traffic.world.contained
    assert told.message.startswith("ListGroups version 5 from client")
    assert told.error.startswith("KeyError: 'a fault of ours'")


def test_a_call_to_a_disk_that_fails_is_an_excuse_only_where_the_disk_has_failed(
    traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is missing on a disk that works was removed too early, or is asked for too late."""

    def fail(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/watched-0/0.log")

    monkeypatch.setattr(GroupCoordinator, "list_groups", fail)
    trouble = traffic.world.nodes[1].machine.trouble
    with only_contained_errors(traffic.world.contained.append):
        trouble.errors = 1
        traffic.until_over(traffic.list_groups())
        assert traffic.world.contained == []
        trouble.errors = 0
        strikes(fault_rules.CONTAINED, lambda: traffic.until_over(traffic.list_groups()))


def test_what_a_node_contains_in_its_last_turn_is_judged_too(traffic: Traffic) -> None:
    """And is not laid to the node that runs next."""
    node, _ = on_leader(traffic)
    traffic.world.contained.append(ContainedError("Fetch failed", "FileNotFoundError", is_of_system=True))
    strikes(fault_rules.CONTAINED, node.machine.kill)


def test_a_directory_that_is_given_up_though_its_disk_works(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    assert node.broker is not None
    node.broker.services.logs.failed_directories.append(FailedDirectory("/data", None, "it is gone"))
    node.machine.trouble.errors = 1
    traffic.turn(node)
    node.machine.trouble.errors = 0
    strikes(fault_rules.DIRECTORY_FAILED, lambda: traffic.turn(node))


def test_bytes_that_are_no_message(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    assert node.broker is not None
    node.broker.dispatcher.metrics.malformed += 1
    strikes(fault_rules.MALFORMED, lambda: traffic.turn(node))


def test_a_high_watermark_that_falls(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    hosted.log.high_watermark -= 1
    strikes(partition_rules.HIGH_WATERMARK_FALLS, lambda: traffic.turn(node))


def test_a_high_watermark_beyond_the_log(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    hosted.log.high_watermark = hosted.log.log_end_offset + 1
    strikes(partition_rules.HIGH_WATERMARK_OUTSIDE, lambda: traffic.turn(node))


def test_a_high_watermark_that_a_member_of_the_isr_does_not_hold(traffic: Traffic) -> None:
    """It follows the leader's own end alone, while a follower is cut off."""
    node, hosted = on_leader(traffic)
    for follower in traffic.followers:
        traffic.world.network.is_on[follower.place.host] = False
    asked = traffic.client.begin(traffic._write(1))
    traffic.world.loop.run_until(
        lambda: hosted.log.log_end_offset > hosted.log.high_watermark, limit_ms=LIMIT_MS
    )
    assert not asked.is_over
    hosted.log.update_high_watermark(hosted.log.log_end_offset)
    strikes(partition_rules.NOT_HELD, lambda: traffic.turn(node))


def test_a_second_leader_of_an_epoch(traffic: Traffic) -> None:
    follower = traffic.followers[0]
    hosted = traffic.hosted(follower)
    assert hosted is not None
    hosted._change_leader(follower.node_id, hosted.replicas, 0, is_next_epoch=True)
    strikes(partition_rules.TWO_LEADERS, lambda: traffic.turn(follower))


def test_an_isr_with_a_node_that_is_no_replica(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    assert isinstance(hosted.state, Leader)
    hosted.state.partition_state = CommittedPartitionState((*hosted.replicas, 9))
    hosted._count_replicas()
    strikes(partition_rules.ISR_OUTSIDE, lambda: traffic.turn(node))


def test_an_epoch_that_goes_back(traffic: Traffic) -> None:
    follower = traffic.followers[0]
    hosted = traffic.hosted(follower)
    assert hosted is not None
    hosted.partition_epoch -= 1
    strikes(partition_rules.OLD_EPOCH, lambda: traffic.turn(follower))


@pytest.mark.parametrize(
    ("rule", "change"),
    [(partition_rules.OLD_EPOCH, {"leader_epoch": -1}), (partition_rules.ISR_OUTSIDE, {"isr": (1, 9)})],
)
def test_an_image_that_says_what_cannot_be(traffic: Traffic, rule: str, change: dict[str, Any]) -> None:
    node, _ = on_leader(traffic)
    image = node.image
    assert image is not None
    topic = image.topics.by_name[TOPIC]
    registration = msgspec.structs.replace(topic.partitions[0], **change)
    changed = msgspec.structs.replace(topic, partitions={0: registration})
    topics = TopicsImage({**image.topics.by_name, TOPIC: changed}, {**image.topics.by_id, topic.id: changed})
    assert node.broker is not None
    node.broker.metadata.image = msgspec.structs.replace(image, topics=topics)
    strikes(rule, lambda: traffic.turn(node))


def test_an_offset_that_is_there_twice(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    second = first_batch_bytes(traffic.content(node))
    pack_into(">q", traffic.content(node), second, 0)
    strikes(log_rules.GAP, lambda: traffic.turn(node))


def test_an_epoch_that_falls_within_a_log(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    second = first_batch_bytes(traffic.content(node))
    pack_into(">i", traffic.content(node), second + 12, hosted.leader_epoch - 1)
    strikes(log_rules.EPOCH_FALLS, lambda: traffic.turn(node))


def test_a_list_of_epochs_that_differs_from_the_log(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    traffic.content(node)
    hosted.log.leader_epochs.clear()
    strikes(log_rules.EPOCHS_DISAGREE, lambda: traffic.turn(node))


def test_a_log_end_without_a_batch(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    hosted.log.segments.log_end_offset += 1
    strikes(log_rules.WRONG_END, lambda: traffic.turn(node))


def test_a_log_that_is_cut_behind_a_batch_that_was_compacted_away(traffic: Traffic) -> None:
    node, hosted = on_leader(traffic)
    hosted.log.segments.log_end_offset += 1
    traffic.seen.committed.merged_end = hosted.log.log_end_offset
    traffic.turn(node)


def test_other_records_where_some_are_committed(traffic: Traffic) -> None:
    follower = traffic.followers[0]
    second = first_batch_bytes(traffic.content(follower))
    traffic.content(follower)[second + 17] ^= 1
    strikes(log_rules.CHANGED, lambda: traffic.turn(follower))


def test_a_follower_that_cuts_off_what_is_committed(traffic: Traffic) -> None:
    follower = traffic.followers[0]
    hosted = traffic.hosted(follower)
    assert hosted is not None
    hosted.log.truncate_to(1, now_ms=0)
    strikes(log_rules.CUT_OFF, lambda: traffic.turn(follower))


def test_a_follower_that_takes_too_much_for_committed(traffic: Traffic) -> None:
    follower = traffic.followers[0]
    traffic.seen.committed.cut(1)
    traffic.content(follower)
    strikes(log_rules.AHEAD, lambda: traffic.turn(follower))


def make_leader(node: SimulatedNode, hosted: Partition) -> None:
    """In a new epoch, without asking anybody."""
    hosted.leader_epoch += 1
    hosted.partition_epoch += 1
    hosted._change_leader(node.node_id, (node.node_id,), 0, is_next_epoch=True)


def commit_more(traffic: Traffic) -> None:
    """What only a node that is gone has had."""
    committed = traffic.seen.committed
    offset = committed.end_offset
    committed.batches.append(SeenBatch(offset, offset, 0, 0, -1, -1, -1, 0))
    committed.lasts.append(offset)


def test_a_leader_that_lacks_what_is_committed(traffic: Traffic) -> None:
    follower = traffic.followers[0]
    hosted = traffic.hosted(follower)
    assert hosted is not None
    commit_more(traffic)
    make_leader(follower, hosted)
    strikes(log_rules.LOST, lambda: traffic.turn(follower))


def test_a_leader_may_lack_it_where_the_plan_allows_that() -> None:
    with without_logs():
        traffic = Traffic(2, allows_unclean=True)
        traffic.write(3)
    follower = traffic.followers[0]
    hosted = traffic.hosted(follower)
    assert hosted is not None
    commit_more(traffic)
    make_leader(follower, hosted)
    traffic.turn(follower)
    assert traffic.world.coverage.counts["committed records lost by lost disks"] == 1
    assert traffic.seen.committed.end_offset == hosted.log.log_end_offset
    assert list(traffic.world.losses) == [(TOPIC, 0)]


def test_a_cluster_without_trouble_is_well(traffic: Traffic) -> None:
    assert becomes(traffic, None)


def test_a_cluster_with_a_node_down_is_not_well_until_it_is_back(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    node.machine.cut_power(lose_all)
    assert reason_not_well(traffic.world) == f"{node} is down"
    traffic.world.loop.run_for(15_000)
    node.start()
    assert reason_not_well(traffic.world) is not None
    assert becomes(traffic, None)


def spoil_end(hosted: Partition) -> None:
    hosted.log.segments.log_end_offset += 1


def spoil_transactions(hosted: Partition) -> None:
    hosted.log.producer_state.transactions.began(1, 0)


def spoil_role(hosted: Partition) -> None:
    hosted.is_leader = not hosted.is_leader


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (spoil_end, "has different log ends"),
        (spoil_transactions, "has an open transaction"),
        (spoil_role, "does not know"),
    ],
)
def test_a_partition_that_is_not_well(
    traffic: Traffic, spoil: Callable[[Partition], None], reason: str
) -> None:
    assert becomes(traffic, None)
    _, hosted = on_leader(traffic)
    spoil(hosted)
    assert reason in (reason_not_well(traffic.world) or "")


def test_logs_that_differ(traffic: Traffic) -> None:
    assert becomes(traffic, None)
    traffic.content(traffic.followers[0])[17] ^= 1
    assert "is not the same on nodes" in (reason_not_well(traffic.world) or "")


def test_images_that_differ(traffic: Traffic) -> None:
    assert becomes(traffic, None)
    node, _ = on_leader(traffic)
    assert node.broker is not None
    assert node.image is not None
    node.broker.metadata.image = msgspec.structs.replace(node.image, topics=TopicsImage())
    assert f"{node} has other topics" in (reason_not_well(traffic.world) or "")


def test_a_coordinator_that_is_not_loaded(traffic: Traffic) -> None:
    traffic.until_over(traffic.find_coordinator())
    assert becomes(traffic, None)
    for node in traffic.world.nodes.values():
        assert node.broker is not None
        led = node.broker.services.groups.loaded_partitions()
        if led:
            node.broker.services.groups.resigned(led[0])
            assert "of __consumer_offsets and has loaded" in (reason_not_well(traffic.world) or "")
            return
    raise AssertionError("nobody leads a partition of the coordinator's topic")


def test_an_image_that_differs_from_another_node_s(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    assert node.broker is not None
    assert node.image is not None
    node.broker.metadata.image = msgspec.structs.replace(node.image, topics=TopicsImage())
    strikes(metadata_rules.IMAGES_DIFFER, lambda: traffic.turn(node))


def test_an_image_that_goes_back(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    assert node.broker is not None
    assert node.image is not None
    node.broker.metadata.image = msgspec.structs.replace(node.image, offset=node.image.offset - 1)
    strikes(metadata_rules.IMAGE_GOES_BACK, lambda: traffic.turn(node))


def test_a_replica_that_joins_an_isr_and_lacks_what_is_committed(traffic: Traffic) -> None:
    node, _ = on_leader(traffic)
    image, newest = node.image, traffic.seen.newest
    assert image is not None
    assert newest is not None
    assert node.broker is not None
    traffic.seen.newest = msgspec.structs.replace(newest, isr=(node.node_id,))
    commit_more(traffic)
    topic = image.topics.by_name[TOPIC]
    joined = msgspec.structs.replace(newest, partition_epoch=newest.partition_epoch + 1)
    changed = msgspec.structs.replace(topic, partitions={0: joined})
    topics = TopicsImage({TOPIC: changed}, {topic.id: changed})
    node.broker.metadata.image = msgspec.structs.replace(image, topics=topics)
    strikes(partition_rules.JOINS_BEHIND, lambda: traffic.turn(node))


def quorum_rules(traffic: Traffic) -> metadata_rules.QuorumRules:
    return next(rule for rule in traffic.world.rules if isinstance(rule, metadata_rules.QuorumRules))


def test_a_second_leader_of_the_quorum(traffic: Traffic) -> None:
    """The rules have seen another one lead in this epoch, or the same in an earlier life."""
    rules = quorum_rules(traffic)
    (epoch,) = rules.leaders
    node = traffic.world.nodes[rules.leaders[epoch][0]]
    rules.leaders[epoch] = (node.node_id, node.lives + 1)
    rules.has_ended(node)
    strikes(metadata_rules.TWO_QUORUM_LEADERS, lambda: traffic.turn(node))


class FormerRaft:
    """A replica of the quorum as it was once."""

    def __init__(self, now: RaftNode, *, epoch: int = 0, high_watermark: int = 0) -> None:
        self.role = now.role
        self.epoch = now.epoch - epoch
        self.high_watermark = now.high_watermark - high_watermark


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (metadata_rules.QUORUM_EPOCH_FALLS, {"epoch": 1}),
        (metadata_rules.QUORUM_HIGH_WATERMARK_FALLS, {"high_watermark": 1}),
    ],
)
def test_a_quorum_that_goes_back(traffic: Traffic, rule: str, change: dict[str, int]) -> None:
    node = traffic.followers[0]
    assert node.controller is not None
    log = node.controller.log
    log._node = FormerRaft(log.raft, **change)  # type: ignore[assignment]
    strikes(rule, lambda: traffic.turn(node))


def test_another_metadata_log(traffic: Traffic) -> None:
    node = traffic.followers[0]
    assert node.controller is not None
    stored = node.controller.log.stored
    content = node.machine.files.content(stored.active.log.path)
    assert content is not None
    content[17] ^= 1
    stored.segments.truncations += 1
    strikes(metadata_rules.METADATA_DIFFERS, lambda: traffic.turn(node))
