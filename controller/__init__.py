"""The cluster's state: who is in it, which topics there are, who leads them, and what was configured.

Requests never change anything by themselves. A subject looks at an image and returns records and a response;
the records are appended to the metadata log, and only their replay makes a new image. The answer leaves when
the log has committed them. A leader, a standby, a broker and a start-up replay the same way.

In reading order:

* `image/`              what is true: immutable values, and the replay that makes the next
* `records`             which record versions we write, and how a subject hands them over
* `subjects/`           the decisions: (image, request) -> (records, response); pure functions
* `state_machine`       images over time: the newest, the committed, and who waits for what
* `metadata_log`        the port to the replicated log; `raft/` and `replica/` keep it
* `disk_refusals`       what the disk refuses that log, in one sentence
* `quorum_controller`   brings the above together: requests in, answers out when committed
* `policies`            decisions that wait for the operator's own rules
* `handlers/`           one file per API of the controller listener
* `snapshotting`        when a snapshot is due, and how it is written beside serving
* `format`              what `storage format` writes

May be imported by `broker` alone. Imports `storage`, `protocol`, `config`; knows no socket, no clock and no
chance of its own.
"""
