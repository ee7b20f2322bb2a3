"""What must hold of a whole cluster after each turn of a node, and when all trouble is over.

In reading order:

* `rule_table`           all rules, for a world
* `partition_watch`      after each turn: what has changed of a node's image and partitions, and who judges it
* `seen_partitions`      partitions as one sees them who looks at all nodes at once
* `seen_logs`            what lies in a log, by the headers of its batches
* `committed_logs`       what is committed in a partition: the reference for every log
* `partition_rules`      who leads, who is in sync, how far all is committed
* `log_rules`            offsets and epochs of each log, and that nothing committed is lost or changed
* `deletion_rules`       that the beginning of a log goes only where somebody wants that
* `transaction_rules`    producers and transactions in each log, by a model that reads its batches
* `fault_rules`          what nodes contain of their own faults, and what they cannot read
* `metadata_rules`       images beside each other, and the quorum's log beneath them
* `fetch_rules`          what readers are given, beside what is committed
* `refusal_rules`        what clients are refused by a leader that has all that is committed
* `group_claims`         which member of a group takes which partitions for its own
* `offset_registers`     what may be committed for a partition of a group
* `group_rules`          both of them beside what the groups' coordinators know
* `wellness`             what must come to pass when all trouble is over

May be imported by `broker.cli` and by tests. Rules look at nodes and change nothing of them.
"""
