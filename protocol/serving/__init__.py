"""What a handler is: a typed request and its context in, a response out.

The network reads frames, dispatch decodes them and calls a handler, and the handler answers with a value. It
decodes nothing and knows no socket, so the same function serves a client on TCP, a peer in the same process
and a simulated cluster. Broker and controller handlers share this package because both are served the same
way; it knows neither of them.

In reading order:

* `session`                who is connected, and whether he is authenticated
* `authorization`          what a principal may do on what, and who decides it
* `request_context`        all that a handler may know of a request beside the request itself
* `authorized_operations`  what a client may do, as the bit field that some answers carry
* `pending`                an answer that is not there yet, and what may come instead of an answer
* `turns`                  handlers that may be interrupted between two elements of a long request
* `sasl_out_of_turn`       what SASL requests are answered that come at the wrong time
* `error_counts`           which error codes a response holds
* `handler_table`          which handler serves which API: the rows, and the table of a listener

A handler gives one of four things:

* a response message: sent at once;
* a `Pending`: the answer comes later (a long poll, a rebalance, an acknowledgement by replicas); whoever owns
  the wait completes it;
* ``None``: there is no answer (Produce with acks=0);
* it raises `CloseConnection`: the peer is to be cut off.
"""
