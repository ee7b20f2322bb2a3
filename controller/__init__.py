"""The cluster's state: who is in it, which topics there are, who leads them, and what was configured.

Requests never change anything by themselves. A subject looks at an image and returns records and a response;
the records are appended to the metadata log, and only their replay makes a new image. The answer leaves when
the log has committed them. A leader, a standby, a broker and a start-up replay the same way.

In reading order:

* `metadata/`           all that reads or writes the metadata log: records, images, snapshots, the log's port
* `raft/`               one replica of that log's quorum: the pure node, and what drives it on a real disk
* `subjects/`           the decisions: (image, request) -> (records, response); pure functions
* `state_machine`       images over time: the newest, the committed, and who waits for what
* `appends`             from a decision's records to the batches that are appended
* `quorum_controller`   brings the above together: requests in, answers out when committed
* `leader_tasks`        elections that nobody asks for: unclean ones, and back to preferred leaders
* `election_watch`      counts the elections that are committed, and tells of them
* `policies`            decisions that wait for the operator's own rules
* `config_requests`     what is checked before changes of configs are decided
* `services`, `handlers/`, `handler_table`   one file per API of the controller listener
* `idle`                NoOp records, and looks at what was left undone
* `registration`        a controller that follows registers with the one that leads
* `snapshotting`        when a snapshot is due, and how it is written beside serving
* `format`, `initial_voters`, `first_credentials`   what `storage format` writes, and the first start reads

May be imported by `broker` alone. Imports `storage`, `protocol`, `config`; knows no socket, no clock and no
chance of its own.
"""
