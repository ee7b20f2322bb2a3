"""Clients of a simulated cluster: they know Kafka's protocol and its rules, and nothing of the broker's code.

What they are told is believed and written into the history as it came; whether it was true is judged later,
by the history's checker.

In reading order:

* `cluster_client`          what all clients have: metadata, leaders, coordinators, repetition, the history
* `client_metadata`         brokers, topics and leaders as a client knows them
* `client_history`          how a client writes down what it does and is told
* `answer_errors`           the error codes of an answer, and which of them are worth another try
* `client_batches`          records as clients make them, and fetched ones as clients must read them
* `outgoing_batches`        batches on their way to the leaders
* `producers`               plain and idempotent ones
* `transactional_session`   one incarnation of a transactional producer, and what it asks
* `transactional_producers`  how transactions end: well, badly, never, and by whom
* `reader_sessions`         a reader's half of a fetch session
* `readers`                 consumers without a group, and what they do when a leader changes
* `group_consumer`          what consumers of both group protocols have in common
* `classic_consumer`        a consumer whose group's leader distributes the partitions
* `classic_assignors`       how that leader does it
* `consumer_protocol`       a consumer whose coordinator distributes the partitions (KIP-848)
* `transformers`            transactional producers that are members of one group
* `admin_client`            asks for what the steps of a run want changed
* `client_kinds`            all kinds that a plan can name

May be imported by `broker.cli` and by tests.
"""
