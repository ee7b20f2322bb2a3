"""Coordinators: state that lives in an internal topic and is changed only by replaying its records.

In reading order:

* `ports`                    what a coordinator asks of the rest of the broker (write, read, look up topics)
* `runtime/`                 operations that return records and a response: replay, append, answer; loading
* `group_keys`               the keys of `__consumer_offsets`
* `expressions`              regular expressions of clients
* `classic/`                 groups whose leader distributes the partitions (JoinGroup, SyncGroup, LeaveGroup)
* `consumer/`                groups whose coordinator distributes the partitions (KIP-848)
* `group_operation`          what an operation on a group works with
* `group_metadata_manager`   the groups of one partition, and what their records say
* `offsets/`                 what groups have committed
* `group_shard`              groups and offsets of one partition, as the runtime drives them
* `group_coordinator`        which operation a request is, and on which shard it runs: what handlers call
* `transaction/`             transactional ids: who may use one, what is in its transaction, how that ends

Groups of another protocol and share state are packages beside `classic/`. The broker's handlers
and its composition root may import it.
"""
