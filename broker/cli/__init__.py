"""The command line: one module per command, and the parser that knows all of them.

In reading order:

* `parser`          what can be typed
* `configuration`   the configuration that several commands need: file, environment and overrides
* `start`           `barnabas start`: starts a node
* `several_nodes`   what the nodes of `barnabas start --nodes` are told
* `storage`         `barnabas storage`: formats and describes log directories
* `config_check`    `barnabas config check`: says of each setting of a file what it does here
* `cluster_check`   what keeps a node out of a cluster
* `dump`            `barnabas dump`: prints the records of log files
* `log_repair`      `barnabas log repair`: keeps what can be kept of a damaged log
* `simulate`        `barnabas simulate`: runs a simulated quorum of controllers
* `simulate_cluster`  `barnabas simulate --cluster`: runs a simulated cluster with its clients
* `codec`           `barnabas codec show`: prints the generated code of a message
* `worker`          `barnabas worker`: the process in which a broker does long work

Imported by `broker.__main__` alone.
"""
