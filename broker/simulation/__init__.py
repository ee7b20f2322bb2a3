"""Simulated worlds under one seed: clocks, network, disks and power fail as real ones do.

Whole quorums run here in one process, without a socket, a file or a second of waiting, and after every event
an outside watcher checks what must hold. It is a part of the product and not of its tests, for it belongs to
those who run the product: `barnabas simulate --seed N` tells a failure again, on their machine and by their
copy. So nothing here imports a test; the tests of the simulator, its mutants and the transcripts are in
`tests/simulation`.

In reading order:

* `running`                a seed from its beginning to its verdict; a failing one down to its shortest story
* `fault_plan`, `steps`    what kind of world a seed makes, and what befalls it
* `world`                  the queue of what happens when
* `machine`                one host: its driver executes a Ready, and loses its power between any two effects
* `disk`, `network`        what a crash leaves; what arrives
* `history`                all logs, seen from outside
* `invariants`, `promise_invariants`, `liveness`   the rules at every moment, in every message, and in the end
* `seeded_random`          random numbers from a seed
* `coverage`, `trace`, `message_texts`   what a run has met, and its transcript
* `shrinking`              makes a failing run shorter

Whole nodes, with everything that they consist of, run in another world of the same kind:

* `event_loop`             the loop with simulated time, and the clock and timers of one machine
* `memory_network`         connections between machines, over which real frames go
* `surroundings`           a machine with its disk, what it gives to a node, and the cut of its power

May be imported by `broker.cli` and by tests. The modules of the quorum import controller.raft and protocol,
those of whole nodes import `broker.node`; all random numbers come from a seed.
"""
