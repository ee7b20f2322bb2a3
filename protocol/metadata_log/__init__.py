"""The records of KRaft's metadata log, by subject.

In reading order:

* `frame`           how a record lies in the value of a record of `__cluster_metadata`
* `registrations`   brokers and controllers
* `topics`          topics and partitions
* `cluster`         configs, client quotas, feature levels, blocks of producer ids, metadata transactions
* `security`        ACLs, SCRAM credentials and delegation tokens

The record types and their classes are listed in `protocol.record_types`.
"""
