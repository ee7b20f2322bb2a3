"""This node's replica of the metadata log: `controller.raft` on a real disk, among real peers.

What the raft node wants done is executed here, in its order: persist, then send, then apply. Nothing waits
on the loop: files are synced by helper threads, peers answer when they do, time comes from timers. In
reading order:

    disk            the log, its snapshots and the quorum-state file, as the node reads and changes them
    peers           requests to the other replicas
    driver          executes a Ready, feeds the node with what happens
    metadata_log    `controller.metadata_log.MetadataLog` over that: what the controller appends and follows
    opening         finds what a formatted directory holds, and makes the four

May be imported by the controller's opening and handlers, and by the broker's composition root.
"""
