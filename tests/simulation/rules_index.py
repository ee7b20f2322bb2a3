"""The rules that the transcripts show, by where they come from. `# rules:` in a transcript names them.

Raft: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", by section. KIPs: Kafka's
improvement proposals. Each line says the rule in our words; the transcripts show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "raft-5.1-old-epochs": "a request of an old epoch is refused, and told the new one",
        "raft-5.1-newer-epoch": "whoever hears of a later epoch is in it; a leader leads no more",
        "raft-5.2-election": "a candidate with the votes of a majority leads the epoch",
        "raft-5.2-one-vote": "one vote in an epoch; asked again, the same answer",
        "raft-5.2-vote-survives-crash": "a vote is on the disk before it is sent",
        "raft-5.2-split-vote": "nobody wins; chance decides who stands first in the next epoch",
        "raft-5.2-candidate-yields": "a candidate follows whoever leads its epoch",
        "raft-5.3-replication": "the log goes from the leader to the others; what most have is committed",
        "raft-5.3-consistency-check": "a follower's log must fit where it continues",
        "raft-5.3-truncation": "what the leader does not have is cut off",
        "raft-5.4.1-up-to-date": "votes only for logs that are as long",
        "raft-5.4.2-own-epoch-only": "replicas are counted for records of the leader's own epoch (figure 8)",
        "raft-5.5-crashed-followers": "whoever was away is brought up to date",
        "raft-5.5-repeated-messages": "a message may come twice",
        "raft-6-new-voters-catch-up": "a new voter has caught up before it counts",
        "raft-6-removed-voters-disturb-nobody": "whoever is no voter any more ends no leadership",
        "raft-7-snapshots": "state in the place of the log that led to it",
        "raft-8-first-record": "a leader writes a record of its own at once, and so learns what is committed",
        "kip-595-begin-quorum-epoch": "the leader tells the voters, until they fetch",
        "kip-595-end-quorum-epoch": "a leader that goes names its successors; the first stands at once",
        "kip-595-high-watermark": "the answer to a fetch says what is committed",
        "kip-595-long-poll": "a fetch at the end waits for news",
        "kip-835-idle-records": "that what changes nothing is committed is told with the next answer",
        "kip-595-durable-before-acknowledged": "a fetch speaks of what is synced",
        "kip-595-diverging-epoch": "the answer to a fetch that does not fit says where the logs part",
        "kip-595-fetch-errors": "fenced and unknown epochs, and not the leader",
        "kip-595-fetch-timeout": "without its leader for so long a voter looks for another",
        "kip-595-check-quorum": "without a majority that fetches a leader resigns",
        "kip-595-resigned-after-restart": "after a crash a leader leads its epoch no more",
        "kip-595-only-voter": "a quorum of one elects itself",
        "kip-595-observers": "they follow and do not count",
        "kip-595-cluster-id": "replicas of another cluster are refused",
        "kip-595-static-voters": "voters of the config, by id alone",
        "kip-630-log-start": "the log before a snapshot may go",
        "kip-630-fetch-snapshot": "who asks for what is gone loads the snapshot, in pieces",
        "kip-630-broken-snapshot": "a broken one changes nothing and is loaded again",
        "kip-630-crash-in-download": "half a snapshot is none",
        "kip-630-errors": "no such snapshot, no such position, not the leader",
        "kip-853-first-voters": "the first leader writes the voters of `storage format` into the log",
        "kip-853-add-voter": "observe, answer ApiVersions, be written, be committed",
        "kip-853-second-voter": "check quorum begins when there is somebody to wait for",
        "kip-853-add-refused": "who cannot be added",
        "kip-853-remove-voter": "a voter is removed, and observes",
        "kip-853-remove-refused": "who cannot be removed",
        "kip-853-remove-leader": "a leader that removes itself leads until that is committed",
        "kip-853-one-change-at-a-time": "the next change waits for the one before",
        "kip-853-own-epoch-first": "no change before a record of the leader's own epoch is committed",
        "kip-853-uncommitted-voters-count": "voters count from the moment when they are written",
        "kip-853-update-voter": "addresses in the log follow the voter",
        "kip-853-directory-ids": "a replica is an id and a directory",
        "kip-853-observing-controllers": "who may become a voter fetches as one",
        "kip-853-auto-join": "a controller asks to become a voter, after its former self is removed",
        "kip-853-upgrade": "from static voters to voters in the log",
        "kip-996-pre-vote": "ask before the epoch grows",
        "kip-996-follower-refuses": "who hears from its leader would vote for nobody",
        "kip-996-lost-pre-vote": "refused, it goes back to where it was",
        "kip-996-no-higher-epochs": "a voter that was cut off comes back in its old epoch",
        "kip-1166-high-watermark-wakes": "a waiting fetch is answered when more is committed",
        "kip-1186-acknowledged-early": "AddRaftVoter may be answered when it is written",
    }
)
