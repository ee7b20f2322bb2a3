"""The configs of Kafka 4.3, and our own few, one module per subject; each holds a tuple `DEFINITIONS`.

A row reads: name, type, default, what a value may be, importance, update mode, and what it does. Names,
defaults and bounds are Kafka's; a test compares every row with Kafka's own list.

Broker configs, in reading order:

* `process`                       the node's identity and its part in the metadata quorum
* `network`                       listeners, sockets, connections and the size of requests
* `log`, `cleaner`, `topics`      logs and their retention, compaction, the creation of topics
* `replication`                   replication between brokers
* `groups`, `share`, `streams`    groups and their coordinator, share groups, Streams groups
* `transactions`                  producer ids and transactions
* `security`, `sasl`, `tls`       authorizer, principals and delegation tokens; SASL; TLS
* `quotas`, `metrics`             quotas, and metrics of brokers and clients
* `tiered`                        tiered storage
* `ours`                          the configs of Barnabas, whose names begin with `barnabas.`

Configs of single resources, and those of plug-ins:

* `topic_level`, `group_level`, `client_metrics`   topics, groups, subscriptions to client metrics
* `plugins`                       what only Kafka's plug-ins read

Only `config.catalogue` imports them.
"""
