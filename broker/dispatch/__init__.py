"""From a frame to a handler and back: every request of every listener comes through here.

In reading order:

* `routes`       what is needed to serve one API at one version, put together on first use
* `dispatcher`   from a frame to its answer: header, route, body, handler, response
* `waiting`      a request with a pending answer
* `lane`         requests that take longer than a turn of the loop, served in turns
* `long_request`, `long_answer`   one of these requests, from its frame to its answer, and how that is encoded
* `failures`     the answer to a request whose handler has failed by a fault of the broker
* `malformed`    counts peers that send what is no request, and logs them

`broker/node.py` makes one dispatcher per kind of listener; `broker/network` calls it.
"""
