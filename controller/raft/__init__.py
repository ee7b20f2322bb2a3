"""KRaft as a pure function: one replica of the metadata log's quorum, without loop, clock, chance, socket
or disk.

`RaftNode` takes messages, ticks and appends, and gives back a `Ready`: what to persist, then to send, then to
apply. Who drives it (an asyncio shell in production, the simulator in tests) executes that, and crashes in
between as it likes. In reading order:

    identity, config            who a replica is; how long it waits
    effects                     what the node wants done, and in which order: the contract with its driver
    log_port                    what it reads of its log
    node                        the node: every input is a method

May be imported by the controller and the broker's drivers, and by the simulator. Imports protocol and
storage's list of leader epochs, nothing of the controller's image and subjects.
"""
