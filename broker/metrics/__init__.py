"""What the broker knows about itself: plain integers on the hot path, names and text only when somebody asks.

In reading order:

* `histogram`    times in fixed buckets, and quantiles from them
* `requests`     counts and times per API and version
* `families`     the interface of whoever has something to show: a collector gives families of samples
* `request_families`, `network_families`, `replica_families`, `quorum_families`   what the parts of a node
  count, as Prometheus families by the names of Kafka's JMX exporter
* `loop_health`  lag and idle ratio of the loop, pauses of the collector
* `watchdog`     turns of the loop that take too long, with the stack
* `exposition`   families into Prometheus' text format, in portions that do not stall the loop

Parts of the broker register collectors; nothing here imports them.
"""
