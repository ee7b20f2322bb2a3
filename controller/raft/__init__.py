"""One replica of the metadata log's quorum (KRaft): the pure node, and what drives it on a real disk.

`RaftNode` takes messages, ticks and appends, and gives back a `Ready`: what to persist, then to send, then to
apply. It knows no loop, clock, random source, socket or disk. `RaftDriver` executes a `Ready` on files that
helper threads sync, among peers that answer when they do. In reading order:

* `identity`                 who a replica is, and where it listens
* `config`                   what an operator sets for it: voters, timeouts and sizes
* `effects`                  what the node wants done, and in which order: the contract with its driver
* `log_port`                 what the node reads of its log
* `log_view`                 what the node remembers of its log
* `voters`                   the voters of the quorum, and since which offset
* `progress`                 how far each replica has fetched, and what is committed
* `roles`                    what a replica remembers in each role
* `transitions`              the table of roles, and which role may follow which
* `replica`                  the state of one replica, on which the following modules work
* `starting`                 the role after a start
* `role_changes`             the changes from one role to another
* `connections`              the requests that are under way to each peer
* `wire`                     the messages of the quorum, made and read
* `discovery`                what every message says about the epoch and its leader
* `elections`                votes and pre-votes
* `epochs`                   BeginQuorumEpoch and EndQuorumEpoch
* `following`                the follower: Fetch and FetchSnapshot
* `joining`                  what a follower tells the leader about itself: that it would vote, its addresses
* `leading`                  the leader: appends and commits
* `serving`                  the leader: answers to Fetch and FetchSnapshot
* `control_batches`          the control records that a leader writes
* `membership`               the leader changes the voters (KIP-853)
* `node`                     the node: every input is a method that returns a `Ready`
* `batch_accumulator`        appends that wait to be written; those that may go together become one batch
* `quorum_state`             the quorum-state file: epoch, leader and vote
* `snapshot_files`           names, control records and completeness of snapshot files
* `snapshot_directory`       the snapshots that one replica keeps, and when they are deleted
* `log_failure`              the error of a disk that refuses the metadata log
* `disk`                     log, snapshots and quorum-state, as the node reads and changes them
* `peers`                    requests to the other replicas
* `driver`                   executes a `Ready`, and gives the node its inputs
* `quorum_metrics`           the metrics of a replica

May be imported by everything above it and by the simulator. Imports nothing else of `controller`: neither the
metadata records nor their images.
"""
