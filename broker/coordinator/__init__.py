"""Coordinators: state that lives in an internal topic and is changed only by replaying its records.

In reading order:

* `ports`          what a coordinator asks of the rest of the broker (write, read, look up topics)
* `result`         what an operation leaves behind: records and answers
* `runtime`        operations that return records and a response; append, replay, answer when committed
* `loader`         reading a partition of the topic back, in slices
* `batches`        records in the log's batches, and back
* `deadlines`      many timers in one heap
* `partitioning`   which partition, and so which broker, coordinates a name
* `waiting`        answers built from answers that are not there yet
* `group/`         consumer groups of the classic protocol and committed offsets

The broker's handlers and its composition root may import it.
"""
