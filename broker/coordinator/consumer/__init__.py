"""Consumer groups of KIP-848: the coordinator distributes the partitions, members converge on what it says.

In reading order:

* `member_states`            the states of groups and members, and the table by which a member moves
* `member`                   a member as its records say it
* `subscriptions`            what the members of a group subscribe, counted
* `consumer_group`           a group as data: epochs, members, target assignment, owners
* `consumer_group_records`   how a group lies in `__consumer_offsets`
* `consumer_groups`          the groups of a partition, and how records change them
* `operation`                what an operation works with and leaves behind, and what it refuses with
* `heartbeat`                what a request, or its absence, does to a group
* `assignors/`               who shall have which partitions: `uniform` and `range`
* `target_assignment`        when an assignor is asked, and with what
* `reconciliation`           how a member comes closer to its target
* `metadata_hash`            by which a group finds out that its topics have changed
* `migration`                a classic group with members becomes a consumer group, and back
* `embedded_protocol`        what classic consumers put into JoinGroup and SyncGroup
* `classic_members`          members of a consumer group that speak the classic protocol
* `regexes`                  subscriptions by regular expression, and the search for what they match
* `describe_consumer_group`  groups as administrators see them
* `consumer_group_requests`  requests and deadlines of a shard, put to the machine

Nothing here waits or looks at a clock, and nothing but `consumer_groups` changes what is recorded of a group.
The group coordinator imports it.
"""
