"""Consumer groups: who is in, who has which partitions, and how far each has come.

In reading order:

* `states`                   the five states of a classic group and every transition with its cause
* `classic_group`            members, protocols, votes, static members: the group as data
* `operation`                one event's view of the world
* `rebalance`, `join`, `sync`, `leave`   what each event does to a group
* `subscription`             what a consumer's metadata names
* `offset_store`, `offset_commit`, `offset_fetch`, `expiry`   committed offsets
* `deletion`                 groups and offsets that are deleted
* `group_records`            how both lie in `__consumer_offsets`
* `shard`                    all groups of one partition, replayed from its records
* `soundness`                checks a group after an error of ours, and says what becomes of a broken one
* `describe`                 groups as administrators see them
* `settings`, `coordinator`   the facade that handlers call

All but `coordinator` are pure. The broker's handlers and its composition root may import it.
"""
