"""Sockets, and what happens between a socket and a request: the only place that touches a client's bytes.

In reading order:

* `pieces`      what an answer consists of: bytes, and slices of files
* `memory`      the loop's one receive buffer, and the bounded pool for requests that do not fit it
* `large_frame` a frame that arrives in parts, in a buffer that grows with what has arrived
* `neighbours`  what stands around a connection: the wire below, the service above, an answer to come
* `connection`  sans-IO: bytes in, frames to a service in order, answers out in order; turns, waits, mutes
* `ready_queue`      connections that have something to do in the next turn of the loop
* `output`      the queue of bytes and file slices in front of one socket
* `transport`   between socket and connection: nothing for plaintext, the place of TLS
* `disconnects`     who tells that a peer has gone while nobody reads from it
* `sockets`     a connection on a real non-blocking socket of the loop
* `limits`      how many connections, in all and per address
* `idle`        connections that have been silent for too long
* `acceptor`    a listening socket
* `descriptors` how many files and sockets the process may have
* `server`      listeners, connections, graceful stop

`broker/node.py` puts it together with a service (`broker/dispatch`); handlers import nothing of it.
"""
