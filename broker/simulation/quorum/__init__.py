"""A quorum of controllers in one process, under one seed.

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
* `library`              all logs of a world in one: each batch once, and what is committed
* `invariants`           the rules that hold after every event
* `promise_invariants`   the rules for votes and other promises in messages
* `liveness`             what must come to pass when the faults have ended
* `trace`                the transcript of a run
* `message_texts`        messages in the words of a transcript

May be imported by `broker.cli` and by tests. Imports controller, storage and protocol.
"""
