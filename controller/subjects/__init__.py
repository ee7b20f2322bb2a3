"""The controller's decisions, one module per subject: an image and a request in, records and a response out.

They are functions of their arguments: no clock, no I/O, no state. What they find wrong goes into the
response, with the sentences that Kafka's tools show; nothing they do is visible before the records are
committed.

In reading order:

* `result`                          what a decision is
* `placement`                       which brokers hold a new partition; checks of a client's assignment
* `topics`, `partition_growth`      topics are created and deleted, and get more partitions
* `partition_change`                puts a change of a partition together: election, end of a reassignment
* `leadership`                      the same in an image of the cluster: who may lead, by which configs
* `partitions`                      partitions get other leaders when brokers come and go
* `alter_partition`                 a leader asks for another set of in-sync replicas
* `elections`, `reassignment`       leader elections and reassignments that an operator asks for
* `liveness`, `brokers`             heartbeats, and registration, fencing and shutdown of brokers
* `directories`                     in which log directory each replica lies
* `configs`, `config_changes`       the configs in force and their validation, and changes of dynamic configs
* `quota_changes`                   changes of client quotas
* `acl_changes`                     access control entries are created and deleted
* `mutation_quota`                  how many partitions a client may have created and deleted
* `feature_updates`                 changes of finalized feature levels
* `scram_credentials`               SCRAM credentials of users
* `producer_ids`, `controllers`     blocks of producer ids, and registrations of controllers

Imported by `quorum_controller`, `policies` and the handlers.
"""
