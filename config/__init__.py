"""What an operator can set, and the limits that nobody can: names, types, defaults, readers, layers.

Everything here is plain values and functions over text; nothing opens a socket, reads a clock or imports
another package of ours, so every other package may import this one.

In reading order:

* `ports`        the doors to the outside world (clock, chance, timers, files), as protocols only
* `limits`       our own bounds, with the relations that hold between them
* `values`       Kafka's types and validators: how a text becomes a value, and the sentence when it does not
* `definition`   one config: name, type, default, validator, update mode, effect
* `definitions/` the configs of Kafka 4.3, one module per subject, and what this broker does with each
* `catalogue`    all definitions by name, for brokers, topics, groups and client metrics
* `properties`, `yaml_file`, `environment`, `overrides`   the four places that settings come from
* `layering`     override over environment over file over default, each value with its source
* `broker_config`, `topic_config`   typed access; what the broker, the log and the coordinators read
* `checks`       relations between several broker configs, as Kafka checks them at the start
* `describe`     the same values as DescribeConfigs shows them
"""
