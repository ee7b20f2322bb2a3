"""Compaction: of a topic with `cleanup.policy=compact` the last record of each key is kept.

    │ clean: one record per key │ dirty: written since      │ not cleanable: active, young, undecided │
    log start                   first dirty offset          first uncleanable offset          log end

A pass reads the dirty part and notes for each key its last offset; then all segments up to there are written
anew without the records that a later one of the same key replaces, several small segments into one; then the
new files take the place of the old. Offsets never change, only gaps appear.

* `offset_map`   the last offset of each key, in a fixed amount of memory
* `keyed`        the records of a batch in the form that the cleaner needs
* `aborted`      which batches of transactions can be removed
* `filtering`    what is kept of one batch
* `job`          one pass over one partition: what a worker process does
* `choice`       which partition is cleaned next, and up to where
* `swap`         the new segments take the place of the old ones
* `cleaner`      chooses logs, gives them to workers, and remembers how far each log is cleaned

Rules and file names are Kafka's, so that Kafka can finish what Barnabas has begun, and the other way round.
KIP-58, KIP-98, KIP-354, KIP-534.
"""
