"""One replica of the metadata log's quorum (KRaft): the pure node, and what drives it on a real disk.

`RaftNode` takes messages, ticks and appends, and gives back a `Ready`: what to persist, then to send, then to
apply. It knows no loop, clock, random source, socket or disk. `RaftDriver` executes a `Ready` on files that
helper threads sync, among peers that answer when they do. In reading order:

    identity, config            who a replica is; how long it waits
    effects                     what the node wants done, and in which order: the contract with its driver
    log_port                    what the node reads of its log
    node                        the node: every input is a method
    transitions                 the table of roles and of what leads from one to another
    batch_accumulator           appends that wait to be written: those that may go together become one batch
    quorum_state                the quorum-state file: epoch, leader and vote
    snapshot_files              names, control records and completeness of snapshot files
    snapshot_directory          the snapshots that one replica keeps, and when they go
    log_failure                 the error of a disk that refuses the metadata log
    disk                        log, snapshots and quorum-state, as the node reads and changes them
    peers                       requests to the other replicas
    driver                      executes a Ready, and feeds the node with what happens
    quorum_metrics              what a replica says of itself at any moment

May be imported by everything above it and by the simulator. Imports nothing else of `controller`: neither the
metadata records nor their images.
"""
