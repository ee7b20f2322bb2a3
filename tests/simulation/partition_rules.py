"""The rules that the transcripts of a partition show; a transcript names them in its lines `# rules:`.

Each is called after the Kafka improvement proposal (KIP) that made it, as far as it is about the leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PARTITION_RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kip-16-replica-lag": "a follower that has not caught up for replica.lag.time.max.ms is out of sync",
        "kip-101-epoch-end": "a follower is told where the epoch of its last record ends at the leader",
        "kip-101-epoch-start": "a leader notes the start offset of its epoch before its first record",
        "kip-279-largest-epoch": "for an epoch that it lacks, a leader answers with the largest below it",
        "kip-279-again": "a follower that has truncated its log may have to truncate it once more",
        "kip-320-fenced": "a fetch with an older leader epoch is fenced",
        "kip-320-unknown": "a fetch with a newer leader epoch is told to try again",
        "kip-207-latest": "a leader tells no latest offset before its high watermark is in its epoch",
        "kip-392-preferred": "a consumer with a rack is sent to a replica near it",
        "kip-392-follower": "a follower serves consumers up to its own high watermark",
        "kip-455-not-assigned": "a follower that is not among the replicas is told to try again",
        "kip-497-expand": "a follower that has caught up is to join the ISR, and counts at once",
        "kip-497-epoch-start": "no follower joins the ISR before the start offset of the leader epoch",
        "kip-497-shrink": "a replica that is to leave the ISR counts until the controller has agreed",
        "kip-497-one-at-a-time": "a leader asks for one ISR at a time",
        "kip-497-rejected": "after a rejected change the ISR from before it is in force",
        "kip-497-unknown": "if the result of a change is unknown, the metadata log decides",
        "kip-497-retry": "an AlterPartition request without an answer is sent again",
        "kip-497-overtaken": "a change in the metadata log goes before an answer that comes later",
        "kip-497-joining": "the high watermark waits for a follower that is about to join the ISR",
        "kip-841-fenced": "a fenced broker does not join an ISR",
        "kip-841-shutting-down": "a broker that shuts down does not join an ISR",
        "kip-903-epochs": "the request names the broker epoch in which each replica fetched",
        "kip-903-stale": "a fetch with an earlier broker epoch is refused and does not count",
        "kip-903-image": "a replica whose broker epoch is not in the metadata yet does not join an ISR",
        "kip-951-leader": "a client that asks another broker is told the leader",
        "kip-966-min-isr": "the high watermark does not advance while the ISR is below min.insync.replicas",
        "acks-all": "acks=all waits for the high watermark, and fails when the leader changes",
    }
)
