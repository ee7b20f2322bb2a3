"""What a node does: the controller's part and the broker's part, each put together in one place.

Parts, in reading order: ``ground`` (what both stand on: ports, network, logs), ``controller`` and ``broker``.
The two roles share no object but the ground; they exchange frames. Imported by ``broker.node`` alone.
"""
