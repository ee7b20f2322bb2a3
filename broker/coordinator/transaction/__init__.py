"""Transactions: which producer may use a transactional id, what is in its transaction, and how that ends.

In reading order:

* `transaction_states`        the states of a transactional id and every transition with its cause
* `transaction_metadata`      what is known of an id, and how each cause changes it: epochs, producer ids
* `transaction_records`       how an id lies in `__transaction_state`
* `transaction_operation`     what an operation on an id works with
* `init_producer_id`          a producer takes an id over
* `partitions`                partitions enter a transaction
* `end_transaction`           a transaction is committed or aborted: the tables of EndTxn, and what follows
* `transaction_shard`         the ids of one partition, as the runtime drives them; what is overdue or expired
* `transaction_markers`       every partition of an ended transaction gets its marker, however long that takes
* `partition_verification`    a leader asks coordinators before it takes the first batch of a transaction
* `first_writes`              what a batch that begins a transaction waits for
* `transaction_descriptions`  ids as administrators see them
* `transaction_coordinator`   which operation a request is, and on which shard it runs: what handlers call

KIP-98 (transactions), KIP-360 and KIP-588 (epochs), KIP-890 (version 2), KIP-664 (administration). How it is
connected to other brokers is in `broker.server.transactions`.
"""
