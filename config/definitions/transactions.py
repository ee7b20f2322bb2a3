"""The configs of producer ids and transactions."""

from __future__ import annotations

from typing import Final

from config.definition import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LOW, READ_ONLY, SHORT, Definition
from config.validators import at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("producer.id.expiration.ms", INT, 86_400_000, at_least(1), LOW, CLUSTER_WIDE,
        "How long an idle producer's sequence numbers are remembered for each partition."),
    Definition("producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), LOW, READ_ONLY,
        "How often expired producer ids are looked for.", internal=True),
    Definition("transaction.max.timeout.ms", INT, 900_000, at_least(1), HIGH, READ_ONLY,
        "Longest transaction timeout that a producer may ask for."),
    Definition("transactional.id.expiration.ms", INT, 604_800_000, at_least(1), HIGH, READ_ONLY,
        "How long an idle transactional id is remembered."),
    Definition("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT,
        10000, at_least(1), LOW, READ_ONLY,
        "How often transactions beyond their timeout are looked for and aborted."),
    Definition("transaction.remove.expired.transaction.cleanup.interval.ms", INT,
        3_600_000, at_least(1), LOW, READ_ONLY,
        "How often expired transactional ids are looked for and removed."),
    Definition("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Whether a partition leader asks the coordinator if a transaction is really open "
        "before it takes its records."),
    Definition("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether producers may keep prepared transactions open for an outside coordinator (KIP-939)."),
    Definition("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Partitions of `__transaction_state`; must not change once the topic exists."),
    Definition("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replicas of `__transaction_state`; until so many brokers live, the topic is not created."),
    Definition("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH, READ_ONLY,
        "min.insync.replicas of `__transaction_state`."),
    Definition("transaction.state.log.segment.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Segment size of `__transaction_state`."),
    Definition("transaction.state.log.load.buffer.size", INT, 5_242_880, at_least(1), HIGH, READ_ONLY,
        "Bytes that are read at once when a partition of `__transaction_state` is loaded."),
    Definition("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), HIGH, READ_ONLY,
        "Pause of the broker's own retries when it adds a partition to a transaction for a client."),
    Definition("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), HIGH, READ_ONLY,
        "Time after which those retries stop and the client hears of the failure."),
)
# fmt: on
