"""Requests from one role to another: broker to controller, node to node.

Both sides speak whole frames, whether a network lies between them or not: two roles of one process share no
object, and a role can move to a process of its own without anybody noticing.

* `in_process`  the other role runs on this very loop
"""
