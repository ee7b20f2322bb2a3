"""From a frame to a handler and back: every request of every listener comes through here.

In reading order:

* `routes`       what is needed to serve one API at one version, put together on first use
* `dispatcher`   the way through: header, route, body, handler, answer
* `waiting`      a request whose answer comes later
* `lane`         requests that take longer than a turn of the loop, in turns
* `long_request`, `long_answer`   one of them, from its frame to its answer, and the encoding of that
* `failures`     what a client gets when a handler failed in a way that it must not
* `malformed`    peers that send what is no request: counted, and named once in the log

`broker/node.py` makes one dispatcher per kind of listener; `broker/network` calls it.
"""
