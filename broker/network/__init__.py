"""Sockets, and what happens between a socket and a request: the only place that touches a client's bytes.

In reading order:

* `response_pieces` what an answer consists of: bytes, and slices of files
* `memory`      the loop's one receive buffer, and the bounded pool for requests that do not fit it
* `large_frame` a frame that arrives in parts, in a buffer that grows with what has arrived
* `interfaces`  what stands around a connection: the socket or TLS below, the service above, and an answer
  that comes later
* `connection`  sans-IO: bytes in, frames to a service in order, answers out in order; turns, waits, mutes
* `ready_queue` connections that have something to do in the next turn of the loop
* `output`      the queue of bytes and file slices in front of one socket
* `page_cache`  asks the kernel how much of a file is in memory
* `cold_reads`  sends file slices that are not in memory by a helper thread
* `disconnects` who tells that a peer has gone while nobody reads from it
* `sockets`     a connection on a real non-blocking socket of the loop
* `creation_rate` how fast connections may come
* `limits`      how many connections there may be, in all, per listener and per address
* `idle`        connections that have been silent for too long
* `acceptor`    a listening socket
* `descriptors` how many files and sockets the process may have
* `server`      listeners, connections, graceful stop

`broker/server` puts it together with a service (`broker/dispatch`); handlers import nothing of it.
"""
