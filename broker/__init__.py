"""The broker: a process with sockets, files and a clock around what the other packages decide.

In reading order:

* `__main__`, `cli/`            the command line
* `process`, `node`, `roles/`   the process, its loop and signals; a node put together of its roles
* `network/`                    sockets and frames
* `dispatch/`                   from a frame to a handler and back
* `services`, `handlers/`       what a handler may use; one file per API
* `replication/`                partitions led here: appends, reads, and who waits for them
* `fetch_sessions`              what a consumer need not say again
* `coordinator/`                groups, and whatever else keeps its state in an internal topic
* `peer/`, `forwarding`         requests to the controller
* `lifecycle`, `metadata_loader`, `publishers/`   registered, told of the cluster's state, acting on it
* `metadata_cache`, `topic_creation`, `producer_ids`   what handlers ask of that state, and of the controller
* `policies/`                   the operator's own rules on topics and configs, in a process of their own
* `authorizer`, `throttle`      who may do what, and how fast
* `metrics/`, `admin/`          what is counted, and where it is read
* `ports/`                      the real files, clock, timers, threads and dice
* `launcher/`                   the package `barnabas` of the wheel

Imports everything else of the house; imported by nobody but tests.
"""
