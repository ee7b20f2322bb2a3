"""All that reads or writes the cluster's metadata log, and what else controller and broker must agree on.

In reading order:

* `metadata_version`    the levels of `metadata.version`, and in which version each record is written
* `supported_features`  which feature levels work here, and the way back where a cluster needs others
* `topic_names`         which names a topic may have, and the name of the metadata topic
* `random_ids`          random UUIDs for topics, directories, clusters and incarnations
* `image/`              the state at one offset: immutable values, and the replay that makes the next one
* `records`             a batch of metadata records, encoded and decoded
* `snapshots`           the records of an image as a snapshot, and an image out of a snapshot
* `log`                 the port: what its users ask of a replica of the metadata log
* `replicated_log`      that port, kept by a `controller.raft` replica
* `log_opening`         finds what a formatted directory holds, and makes the replica
* `resource_changes`    changes of configs: what is asked for a resource, what comes of it; loggers' levels
* `client_quotas`       which client quotas there are, and which of them holds for a client
* `described_resources` how DescribeConfigs is answered, by brokers and controllers alike
* `acl_filters`         which access control entries a filter means
* `described_acls`      how DescribeAcls is answered, by brokers and controllers alike
* `described_credentials` how DescribeUserScramCredentials is answered, by brokers and controllers alike
* `policies`            what an operator's own rules are asked and answer, and the port to them

May be imported by the rest of `controller`, by `broker` and by the simulator. Of `controller` it imports only
`controller.raft`.
"""
