"""Simulated worlds under one seed: clocks, network, disks and power fail as real ones do.

Here whole quorums and whole clusters run in one process, without a socket, a file or a second of waiting, and
after every event an outside watcher checks what must hold. It is a part of the product and not of its tests,
for it belongs to those who run the product: `barnabas simulate --seed N` repeats a failure, on their machine
and by their copy. So nothing here imports a test; the tests of the simulator, its mutants and the transcripts
are in `tests/simulation`.

* `quorum`           the controllers' quorum alone: fast enough for hundreds of thousands of seeds
* `cluster`          whole nodes with all that they consist of, and clients that talk to them
* `clients`          what producers, consumers and others do to it, written against the wire
* `rules`            what must hold of a cluster after each turn of a node, and when trouble is over
* `histories`        what clients did and were told, of simulated and of real clusters, and its judge
* `seeded_random`    random numbers from a seed
* `verdict`          how a run ends: the rule that was broken
* `coverage`         counts of what a run has met
* `shrinking`        fewer steps with the same failure

May be imported by `broker.cli` and by tests. All random numbers come from a seed.
"""
