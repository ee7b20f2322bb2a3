"""Classic groups: members that join a generation, and whose leader distributes the partitions.

In reading order:

* `states`          the five states of a classic group and every transition with its cause
* `classic_group`   members, protocols, votes, static members: the group as data
* `subscription`    what topics a consumer's metadata names
* `rebalance`       how a group comes from one generation to the next
* `join`, `sync`, `leave`   what each request does to a group
* `group_records`   how a group lies in `__consumer_offsets`
* `describe`        groups as administrators see them
* `soundness`       checks a group after an error of ours, and says what becomes of a broken one

As in Kafka the members of a group are in memory, and a record is written when a generation has its assignment
or has become empty: see `group_metadata_manager` beside this package. The group coordinator imports it.
"""
