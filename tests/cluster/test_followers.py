"""Followers copy what their leaders have, byte for byte: after a crash, and after their logs have parted."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.cluster.conftest import NewCluster
from tests.support.brokers.cluster import BOTH, BROKER, FAST, KAFKAS, OURS, Cluster
from tests.support.brokers.replica_logs import await_same_logs, log_bytes, log_end
from tests.support.clients.spread import create_placed, numbered_values, read_all, write_to_all


def write_to_leader(server: str, topic: str, count: int) -> None:
    """Records that the leader alone has acknowledged."""
    producer = Producer({"bootstrap.servers": server, "acks": "1"})
    for number in range(count):
        producer.produce(topic, f"lost {number}".encode(), partition=0)
    assert producer.flush(30) == 0


def parted_end(cluster: Cluster, node_id: int) -> int:
    """The end of a node's log of the partition `parted-0`."""
    return log_end(log_bytes(cluster.nodes[node_id].data, "parted", 0))


def test_followers_have_the_bytes_of_their_leaders(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, **FAST)
    create_placed(cluster.bootstrap, "copied", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    write_to_all(cluster.bootstrap, "copied", partitions=3, count=200)
    await_same_logs(cluster, "copied", range(3), 200)


def test_a_follower_that_was_killed_catches_up(new_cluster: NewCluster) -> None:
    cluster = new_cluster(OURS, OURS, OURS, **FAST)
    create_placed(cluster.bootstrap, "kept", [[1, 2, 3], [3, 1, 2]])
    write_to_all(cluster.bootstrap, "kept", partitions=2, count=100)
    cluster.nodes[2].kill()
    write_to_all(cluster.bootstrap, "kept", partitions=2, count=300, first=100)
    cluster.nodes[2].start()
    write_to_all(cluster.bootstrap, "kept", partitions=2, count=100, first=400)
    await_same_logs(cluster, "kept", range(2), 500)


def test_what_only_a_dead_leader_had_is_cut_off_when_it_is_back(new_cluster: NewCluster) -> None:
    """The followers sleep while the leader takes records with acks=1, and then the leader dies.

    The first of these records may still reach the followers, in the answer to a fetch that waits at the
    leader. The others cannot.
    """
    cluster = new_cluster(OURS, OURS, OURS, **FAST)
    create_placed(cluster.bootstrap, "parted", [[1, 2, 3]])
    write_to_all(cluster.bootstrap, "parted", partitions=1, count=100)
    await_same_logs(cluster, "parted", [0], 100)
    for follower in (2, 3):
        cluster.nodes[follower].pause()
    write_to_leader(cluster.nodes[1].client_address, "parted", 1)
    write_to_leader(cluster.nodes[1].client_address, "parted", 50)
    assert parted_end(cluster, 1) == 151
    cluster.nodes[1].kill()
    for follower in (2, 3):
        cluster.nodes[follower].resume()
    cluster.await_brokers(2, 3)
    write_to_all(cluster.bootstrap, "parted", partitions=1, count=20, first=100)
    ends = [120, 121]
    end = cluster.wait(
        lambda: next(
            (each for each in ends if each == parted_end(cluster, 2) == parted_end(cluster, 3)), None
        ),
        f"end of both followers' logs among {ends}",
    )
    cluster.nodes[1].start()
    await_same_logs(cluster, "parted", [0], end)
    cut = rb"Truncated parted-0 from offset 151 to %d" % (end - 20)
    assert cut in cluster.nodes[1].log_file.read_bytes()
    cluster.await_brokers(1, 2, 3)
    values = read_all(cluster.bootstrap, "parted", partitions=1, count=end)[0]
    assert values[:100] + values[-20:] == numbered_values(1, 120)[0]


def test_we_follow_a_genuine_leader(new_cluster: NewCluster) -> None:
    cluster = new_cluster(KAFKAS, OURS, roles=[BOTH, BROKER], **FAST)
    create_placed(cluster.bootstrap, "genuine", [[1, 2], [1, 2]])
    write_to_all(cluster.bootstrap, "genuine", partitions=2, count=500)
    await_same_logs(cluster, "genuine", range(2), 500)
    assert b"Error" not in cluster.nodes[1].log_file.read_bytes()


def test_a_genuine_broker_follows_us(new_cluster: NewCluster) -> None:
    cluster = new_cluster(KAFKAS, OURS, roles=[BOTH, BROKER], **FAST)
    create_placed(cluster.bootstrap, "ours", [[2, 1], [2, 1]])
    write_to_all(cluster.bootstrap, "ours", partitions=2, count=500)
    await_same_logs(cluster, "ours", range(2), 500)
