"""The broker: a process with sockets, files and a clock around what the other packages decide.

In reading order:

* `__main__`, `cli/`      the command line
* `process/`              the process: its loop, its signals, its logging, its end
* `node`, `server/`       a node, put together of the roles that it has
* `ports/`                the real files, clock, timers, threads and random source
* `network/`              sockets and frames
* `dispatch/`             from a frame to a handler and back
* `fast_lane/`            requests that are like an earlier one, without that way
* `services`, `handlers/` what a handler may use; one module per API
* `replication/`          partitions led here: appends, reads, who waits for them, fetch sessions
* `coordinator/`          groups, and whatever else keeps its state in an internal topic
* `controller_channel/`   what this broker says to the controller
* `metadata/`             the cluster's metadata as this broker knows it, and what follows from its changes
* `security/`, `quotas/`  who may do what, and how fast
* `scheduling/`           work that gives way to clients
* `workers/`              processes that compact and recover logs
* `policies/`             the operator's own rules on topics and configs, in a process of their own
* `metrics/`, `admin/`    what is counted, and where it is read
* `simulation/`           whole quorums under one seed: `barnabas simulate`
* `launcher/`             the package `barnabas` of the wheel

Imports everything else of the house; imported by nobody but tests.
"""
