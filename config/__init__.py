"""What an operator can configure, and fixed limits: names, types, defaults, and how settings are read.

Everything here is plain values and functions over text; nothing opens a socket or a file, reads a clock or
imports another package of ours, so every other package may import this one.

In reading order:

* `ports`          the protocols of what a node uses of its surroundings: clock, random numbers, timers, files
* `limits`         the fixed limits of Barnabas, with the relations that hold between them
* `values`, `validators`, `errors`   Kafka's types and rules: how a text becomes a value, or an error
* `definition`     the definition of one config: name, type, default, validator, update mode
* `definitions/`   the configs of Kafka 4.3 and our few, one module per subject
* `effects`        which of them this release honours, does not use yet, or ignores, and why
* `catalogue`      all definitions by name, and which names are synonyms
* `meanings`       what one key of a file means: a config, one of a listener, one of a plug-in, or nothing
* `setting`, `properties`, `yaml_file`, `environment`   settings as they are written, each with its place
* `providers`      placeholders in values, and what Kafka's three config providers say that they mean
* `loading`        puts the layers of settings together and checks them, at the start of every node
* `broker_config`, `listeners`, `topic_config`   typed access for the broker, the log, the coordinators
* `principal_mapping`, `tls_settings`   the configs of TLS for one listener, rules for names of clients
* `jaas`, `authentication`   JAAS entries, and what the configs say of SASL
* `checks`         relations between broker configs, as Kafka checks them at the start
* `dynamic`, `dynamic_groups`, `dynamic_client_metrics`   checks of changes while the cluster runs
* `list_changes`, `log_levels`   lists to which values are appended, levels of loggers
* `java_order`     the order in which Java's hash tables iterate
* `describe`       the same values as DescribeConfigs shows them

`server.properties` and `server.yaml` beside them are the same commented example in both spellings.
"""
