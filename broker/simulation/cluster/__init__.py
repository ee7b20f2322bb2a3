"""Whole nodes with everything that they consist of, from the wire to the disk, in one thread under one seed.

In reading order:

* `cluster_world`        all of it: nodes, clients, rules and who is told
* `event_loop`           the loop with simulated time, and the clock and timers of one machine
* `links`                the ways between machines, and what is wrong with them
* `connect_attempt`      a connection that is being made
* `memory_network`       connections between machines, over which real frames go
* `host_files`           the files of one life of a machine, which fail as its disk does
* `surroundings`         a machine with its disk, what it gives to a node, and the cut of its power
* `simulated_node`       a node of the cluster and its lives, and what of it the rules see
* `active_faults`        the faults that are at work, each with its end
* `restarts`             nodes that have ended are started again
* `tasks`                coroutines on the loop, for clients
* `client`               a client's machine, from which tasks ask the brokers
* `cluster_plan`         what a seed makes of a cluster before anything happens
* `cluster_steps`        what befalls it, and when
* `cluster_changes`      an operator changes configs and feature levels
* `feature_changes`      an operator changes the protocols of transactions and of groups
* `partition_changes`    an operator moves, makes and deletes partitions, and has leaders elected
* `loss_budget`          how many disks may still be lost
* `machine_faults`       processes that are killed and paused, power that fails, disks that are lost
* `correlated_failures`  a rack, or all nodes, that fail at one instant
* `client_faults`        consumers that die and come back, clients that stand still
* `disk_losses`          disks of voters, and single log directories, that are lost for good
* `file_damage`          files that are damaged between two lives of a node, and what a start makes of it
* `disk_faults`          disks that fail, are full or slow, and clocks that are wrong
* `operator_looks`       groups and transactions are looked at, and a group is used by hand
* `network_faults`       ways that are cut, and connections that break
* `membership_changes`   nodes join and leave, voters change, all restart one after the other
* `directory_moves`      replicas move between the log directories of a broker
* `record_deletions`     records of clients are deleted, and the history is told
* `address_changes`      nodes come back at another port
* `cluster_run`          one run: start, trouble, calm, the end
* `drawn_plan`           the plan that a seed draws
* `small_limits`         clusters in which snapshots, full segments and expiries come within a minute
* `older_levels`         clusters that an earlier release has formatted, and that are raised while they run
* `slow_worlds`          half of the seeds of long runs are made slow
* `story`                what happened in a run, told to people
* `cluster_running`      a seed or a file played to its verdict
* `cluster_shrinking`    a run that fails, made as small as it can be

May be imported by `broker.cli` and by tests. Imports `broker.node`.
"""
