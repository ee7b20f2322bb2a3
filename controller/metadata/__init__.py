"""Everything that reads or writes the cluster's metadata log, for a controller and for a broker alike.

In reading order:

* `metadata_version`    the levels of `metadata.version`, and in which version each record is written
* `topic_names`         which names a topic may have, and the name of the metadata topic
* `random_ids`          random UUIDs for topics, directories, clusters and incarnations
* `image/`              the state at one offset: immutable values, and the replay that makes the next one
* `records`             a batch of metadata records, encoded and decoded
* `snapshots`           the records of an image as a snapshot, and an image out of a snapshot
* `log`                 the port: what its users ask of a replica of the metadata log
* `replicated_log`      that port, kept by a `controller.raft` replica
* `log_opening`         finds what a formatted directory holds, and makes the replica

May be imported by the rest of `controller`, by `broker` and by the simulator. Of `controller` it imports only
`controller.raft`.
"""
