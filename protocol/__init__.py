"""Kafka's protocol as values: typed messages, their bytes, record batches. Knows no socket, file or clock.

In reading order:

* `primitives`, `values`, `varint`   the wire's types; ids and their text; integers of variable length
* `errors`, `error_messages`         error codes, their texts, and the three kinds of error
* `codec/`                           how a message is declared, and the compiler of its codecs
* `messages/`                        requests and responses, one module per API
* `headers`, `framing`               what stands around a message on a connection
* `produce_frames`                   the most frequent answer to Produce, encoded in one go
* `registry`, `record_types`         from an API key or record type to its classes
* `metadata_log/`, `quorum`          the records of KRaft's metadata log, and what KRaft itself writes
* `coordinator_records`              how keys and values lie in the records of a coordinator's topic
* `group_log/`, `transaction_log`, `share_log`, `remote_log`   the records of Kafka's other internal topics
* `consumer_protocol`, `streams_protocol`, `producer_snapshot`   bytes inside messages and files
* `json_form`                        messages as the JSON that Kafka's tools print
* `scram`                            the formulas of SCRAM, and what a server keeps of a password
* `crc`                              CRC-32C, the checksum of record batches
* `records/`                         record batches
* `serving/`                         what a handler is, and the answers that come later
* `refusals`                         answers that refuse a whole request with one error
* `peer_channel`                     the port through which a node asks another one

Every other package may import it; it imports none of them.
"""
