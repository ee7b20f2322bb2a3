"""Simulated worlds under one seed: clocks, network, disks and power fail as real ones do.

Whole quorums run here in one process, without a socket, a file or a second of waiting, and after every event
an outside watcher checks what must hold. It is a part of the product and not of its tests, for it belongs to
those who run the product: `barnabas simulate --seed N` repeats a failure, on their machine and by their
copy. So nothing here imports a test; the tests of the simulator, its mutants and the transcripts are in
`tests/simulation`.

A replica runs in one of two ways. The fast way has models of the driver and of the disk, for hundreds of
thousands of seeds. The other one (`--real-driver`) runs the driver and the disk code of production.

In reading order:

* `running`              runs a seed from its beginning to its verdict, and shrinks a failing one
* `fault_plan`           what kind of world a seed makes: how many replicas, and which faults how often
* `steps`                the single faults and requests of a run, one after the other in time
* `world`                the queue of events, and all that they happen to
* `machine`              a host: its names, its clock and its lives
* `observed_log`         a replica's log as the rules see it
* `model_machine`        a host whose driver is a model
* `disk`                 the model of its disk: what is synced, and what a crash leaves
* `driver_machine`       a host that runs the driver and the disk code of production
* `watched_disk`         that disk code, watched: what it writes, and what of it would survive
* `applied_state`        the state machine above that driver
* `machine_ports`        clock, timers, helper threads and files of that host
* `network`              messages that are late, lost or repeated
* `history`              all logs of a world in one: each batch once, and what is committed
* `invariants`           the rules that hold after every event
* `promise_invariants`   the rules for votes and other promises in messages
* `liveness`             what must come to pass when the faults have ended
* `seeded_random`        random numbers from a seed
* `coverage`             counts of what a run has met
* `trace`                the transcript of a run
* `message_texts`        messages in the words of a transcript
* `shrinking`            fewer steps with the same failure

Whole nodes, with everything that they consist of, run in another world of the same kind:

* `event_loop`           the loop with simulated time, and the clock and timers of one machine
* `memory_network`       connections between machines, over which real frames go
* `surroundings`         a machine with its disk, what it gives to a node, and the cut of its power

May be imported by `broker.cli` and by tests. The modules of the quorum import controller, storage and
protocol, those of whole nodes import `broker.node`; all random numbers come from a seed.
"""
