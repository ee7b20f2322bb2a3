"""Requests from one role to another: broker to controller, node to node.

Both sides exchange whole frames, also within one process, so two roles of one process share no object and
could run in processes of their own.

In reading order:

* `calls`       requests under way: numbered, timed, answered once
* `in_process`  a channel to a role that runs on the same loop
* `replies`     the client side of a connection, sans-IO
* `login`       how a channel to another node authenticates itself there
* `tcp`         a channel to another node, over the node's network
* `to_leader`   a channel to the active controller, in this process or elsewhere
"""
