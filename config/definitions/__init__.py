"""The configs of Kafka 4.3, and our own few, one module per subject; each holds a tuple `DEFINITIONS`.

A row reads: name, type, default, what a value may be, importance, update mode, and what it does. Names,
defaults and bounds are Kafka's; a test compares every row with Kafka's own list. Broker configs stand in
`process`, `network`, `log`, `cleaner`, `topics`, `replication`, `groups`, `share`, `streams`, `transactions`,
`security`, `sasl`, `tls`, `quotas`, `metrics`, `tiered` and `ours`; configs of single resources in
`topic_level`, `group_level` and `client_metrics`; what only Kafka's plug-ins read in `plugins`. Only
`config.catalogue` imports them.
"""
