"""Metrics: plain integers on the hot path, names and text only when somebody scrapes.

In reading order:

* `histogram`    times in fixed buckets, and quantiles from them
* `requests`     counts and times per API and version
* `families`     the interface of a part that has metrics: a collector yields families of samples
* `request_families`, `network_families`, `quorum_families`   what requests, connections and the quorum count,
  as Prometheus families by the names of Kafka's JMX exporter
* `replica_families`, `log_families`, `fetcher_families`, `purgatory_families`   the same of what a broker's
  partitions count
* `quota_families`  the same of the quotas of clients
* `loop_health`  lag and idle ratio of the loop, pauses of the collector
* `watchdog`     turns of the loop that take too long, with the stack
* `exposition`   families as Prometheus' text format, in portions that do not delay clients

Parts of the broker register collectors; nothing here imports them.
"""
