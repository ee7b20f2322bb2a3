"""Sockets, and what happens between a socket and a request: the only place that touches a client's bytes.

In reading order:

* `response_pieces` what an answer consists of: bytes, and slices of files
* `interfaces`      the protocols around a connection: the channel below, the service above, and `Network`,
                    the port through which a node listens and connects
* `memory`          the loop's one receive buffer, and the bounded pool for requests that do not fit it
* `large_frame`     a frame that arrives in parts, in a buffer that grows with what has arrived
* `connection`      sans-IO: bytes in, frames to a service in order, answers out in order; turns, waits, mutes
* `ready_queue`     connections that have something to do in the next turn of the loop
* `creation_rate`   how fast connections may come
* `limits`          how many connections there may be, in all and per address
* `idle`            connections that have been silent for too long
* `server`          the listeners of a node, their connections, and the graceful stop
* `page_cache`      asks the kernel whether a part of a file is in memory
* `cold_reads`      slices of files that are not in memory, sent by helper threads
* `output`          the queue of bytes and file slices in front of one socket
* `disconnects`     notices that a peer has disconnected while its connection is not read
* `sockets`         a channel on a real non-blocking socket of the loop
* `socket_options`  what is set for the socket of an accepted connection
* `acceptor`        a listening socket
* `tls/`            connections over TLS: a filter between socket and connection, and a channel that uses it
* `socket_network`  the real side of `Network`: listeners and outgoing connections of this machine

`broker.server` puts it together with a service (`broker.dispatch`); handlers import nothing of it.
"""
