"""The controller's decisions, one subject a module: an image and a request in, records and a response out.

They are functions of their arguments: no clock, no I/O, no state. What they find wrong goes into the
response, with the sentences that Kafka's tools show; nothing they do is visible before the records are
committed.

In reading order:

* `result`         what a decision is
* `topics`         creation and deletion; `placement` says which brokers hold the replicas, `assignments`
                   what is wrong with those that a caller chose
* `partition_growth`   more partitions for a topic
* `partition_change`   how any change of a partition is put together: elections, ends of moves, epochs
* `partitions`     who leads when brokers come and go
* `elections`, `reassignment`   leaders and replicas by an operator's wish
* `brokers`        registration and heartbeats; `liveness` remembers who was heard of when
* `configs`        validation of what is set, and what holds when nothing is
* `feature_updates`   feature levels are raised and lowered
* `producer_ids`, `controllers`

Imported by `quorum_controller`, `policies` and the handlers.
"""
