"""The real sides of the ports in `config/ports.py`: the operating system behind each promise.

In reading order:

* `surroundings`    all ports of one node in one object; what a node is given beside its config
* `clock`           the machine's clocks, and what threads wait for
* `random_source`   randomness of the operating system
* `timers`          one heap of deadlines over the loop
* `offload`         helper threads
* `files`           the file system
* `machine`         how many descriptors, how much memory and how many processors there are

`broker.process.real_surroundings` makes them for a node, `broker.cli` and `broker.workers.child` for
themselves; everybody else is given the protocol. Only `surroundings` may be imported by everybody.
"""
