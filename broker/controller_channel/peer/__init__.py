"""Requests from one role to another: broker to controller, node to node.

Both sides speak whole frames, whether a network lies between them or not: two roles of one process share no
object, and a role can move to a process of its own without anybody noticing.

* `calls`       requests under way: numbered, timed, answered once
* `in_process`  the other role runs on this very loop
* `replies`     the asking side of a connection, sans-IO
* `tcp`         the other role runs elsewhere
"""
