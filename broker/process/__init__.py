"""The operating system's process around a node.

In reading order:

* `run`                a node from its start to its exit code: loop, signals, the line that says it is ready
* `node_processes`     several nodes of one host, kept running by a parent
* `real_surroundings`  the clock, disks, threads, processes and network of this machine, for the node
* `fatal_errors`       ends the process when an invariant does not hold
* `other_process`      tells when the process ends to which this broker belongs
* `stop_signals`       SIGTERM, SIGINT and SIGHUP, also while the loop does not run
* `service_manager`    tells systemd that the node is ready, and that it stops
* `logging_setup`      log lines on standard error
* `log_levels`         levels of loggers, changed while the process runs
* `garbage_collector`  keeps Python's collector from walking what never becomes garbage

`broker.__main__` imports it.
"""
