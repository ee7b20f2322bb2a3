"""The servers of a node, named as Kafka names them: what each role consists of, put together in one place.

In reading order:

* `shared_server`       what both roles of a node use: ports, logs, listeners, metrics
* `connection_limits`   how many connections each role takes
* `authentication`      SASL: what guards each listener, and how the node logs in to others
* `quorum`              the replica of the metadata log, and channels to the other replicas and the leader
* `controller_server`   the controller: its replica of the metadata log, its decisions, its listeners
* `observer_server`     the replica of the metadata log on a node that is no controller
* `broker_server`       the broker: replicas, coordinators, handlers, its registration with the controller
* `transactions`        the transaction coordinator, and what it and partition leaders ask other brokers
* `followers`           the connections over which the broker copies partitions from their leaders
* `dynamic_configs`     tells each part of a node when a config that it uses has changed

The two roles share no object but the shared server; they exchange frames. `broker.node` imports this package.
"""
