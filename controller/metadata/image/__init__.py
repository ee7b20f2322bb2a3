"""What is true of the cluster at one offset of the metadata log, as immutable values. One module per subject.

Each subject has an image and a delta. A delta takes records one after the other and then makes
the next image; it copies a subject's mapping once, at its first record of that subject, and a topic's
partitions once per topic: so an image of ten thousand topics costs a creation one dictionary copy and not ten
thousand.

In reading order:

* `brokers`, `topics`, `configs`, `features`, `producer_ids`, `scram`   the subjects that decisions look at
* `acls`                 who may do what, by the pattern of the resource
* `quotas`, `record_table`   subjects that are only remembered, so that a snapshot loses nothing
* `partition_index`      the partitions by broker, for decisions about a broker that comes or goes
* `mappings`             copies the mappings of an image quickly
* `cluster_image`        all of them together: `ClusterImage`, `ImageDelta`, `replay`, `image_records`
* `replayer`             the same over batches, with metadata transactions
* `reload`               from one image to another that came whole, and what changed between them

Anyone above `protocol` may read images; only `replay` makes them.
"""
