"""Kafka's protocol as values: typed messages, their bytes, record batches. Knows no socket, file or clock.

Reading order:

* `primitives`, `values`  the wire's types; ids and their text
* `errors`                error codes, and the three kinds of error
* `codec`                 how a message is declared, and the compiler of its codecs
* `messages`              requests and responses, one module per API
* `headers`, `framing`    what stands around a message on a connection
* `registry`, `record_types`  from an API key or record type to its classes
* `metadata_log`, `group_log`, `transaction_log`, `share_log`, `remote_log`, `quorum`  what lives in logs
* `consumer_protocol`, `streams_protocol`, `principal`, `producer_snapshot`  what lies inside others
* `records`               record batches
* `serving`               what a handler is: pending answers, authorization, the table of a listener
* `peer_channel`          the port through which a node asks another one

Everything in the house may import it; it imports nothing of the house.
"""
