"""The keys and values of the records of `__consumer_offsets`, one module per kind of group.

In reading order:

* `offsets`           committed offsets, of groups of every kind
* `classic_groups`    groups of the classic protocol
* `consumer_groups`   groups of the consumer protocol (KIP-848)
* `share_groups`      share groups (KIP-932)
* `streams_groups`    Streams groups (KIP-1071)

How keys and values lie in a record is in `protocol.coordinator_records`.
"""
