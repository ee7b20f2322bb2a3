"""The coordinator runtime: one state machine per partition of an internal topic, changed by records alone.

In reading order:

* `result`                what an operation leaves behind: records, a response, answers; the undo log
* `coordinator_shard`     what the runtime asks of a state machine
* `pending_writes`        the batches that the log has not decided on, and how a refused one is undone
* `coordinator_context`   one partition that this broker leads: operations, verdicts of the log, deadlines
* `partition_load`        reading a partition of the topic back, in slices
* `coordinator_loader`    which partition is loaded next, and what happens when its log cannot be read
* `coordinator_runtime`   all led partitions: elections, requests, changes of the cluster's metadata
* `partitioning`          which partition coordinates a name
* `batches`               records in the log's batches, and back
* `deadlines`             many deadlines in one heap

Nothing in here knows what the records say. The coordinators beside this package import it.
"""
