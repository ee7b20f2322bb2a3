"""What an operator can set, and the limits that nobody can: names, types, defaults, readers, layers.

Everything here is plain values and functions over text; nothing opens a socket or a file, reads a clock or
imports another package of ours, so every other package may import this one.

In reading order:

* `ports`          the doors to the outside world (clock, chance, timers, files), as protocols only
* `limits`         our own bounds, with the relations that hold between them
* `values`, `validators`, `errors`   Kafka's types and rules: how a text becomes a value, or a sentence
* `definition`     one config: name, type, default, rule, update mode, what it does
* `definitions/`   the configs of Kafka 4.3 and our few, one module per subject
* `effects`        which of them this release honours, does not use yet, or ignores, and why
* `catalogue`      all definitions by name, and the families of names that stand for one another
* `meanings`       what one key of a file means, seen with the others: of a listener, of a plug-in, nobody's
* `setting`, `properties`, `yaml_file`, `environment`   settings as somebody wrote them, each with its place
* `loading`        the layers put together, checked, warned about: the start of every node
* `broker_config`, `listeners`, `topic_config`   typed access for the broker, the log, the coordinators
* `checks`         relations between broker configs, as Kafka checks them at the start
* `dynamic`, `dynamic_groups`, `dynamic_client_metrics`   what may be changed while the cluster runs
* `list_changes`, `log_levels`   lists that grow and shrink, levels of loggers
* `java_order`     the order in which Java's hash tables name things
* `describe`       the same values as DescribeConfigs shows them

`server.properties` and `server.yaml` beside them are the same commented example in both spellings.
"""
