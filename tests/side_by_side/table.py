"""All cases in the order in which they run: each finds what the ones before it left."""

from __future__ import annotations

from typing import Final

from tests.side_by_side import (
    of_configs,
    of_consumer_groups,
    of_groups,
    of_later_parts,
    of_placement,
    of_quotas,
    of_records,
    of_the_cluster,
    of_topics,
    of_transactions,
)
from tests.side_by_side.cases import Case

SUBJECTS: Final[dict[str, tuple[Case, ...]]] = {
    "cluster": of_the_cluster.CASES,
    "creating topics": of_topics.CREATING,
    "looking at topics": of_topics.LOOKING,
    "growing topics": of_topics.GROWING,
    "records": of_records.CASES,
    "topic configs": of_configs.OF_TOPICS,
    "broker configs": of_configs.OF_BROKERS,
    "other configs": of_configs.OF_OTHERS,
    "groups at rest": of_groups.AT_REST,
    "moving offsets": of_groups.MOVING,
    "groups at work": of_groups.AT_WORK,
    "groups going": of_groups.GOING,
    "placement": of_placement.CASES,
    # Behind what shows sizes: what is recorded of these groups depends on when heartbeats come.
    "configs of a group": of_consumer_groups.configured(),
    "groups of both protocols": of_consumer_groups.FORMING,
    "groups that change": of_consumer_groups.CHANGING,
    "groups of the classic protocol": of_consumer_groups.OLDER_ONES,
    "groups without members": of_consumer_groups.RESTING,
    "deleting topics": of_topics.DELETING,
    "transactions": of_transactions.CASES,
    "quotas": of_quotas.CASES,
    "later parts": of_later_parts.CASES,
}
