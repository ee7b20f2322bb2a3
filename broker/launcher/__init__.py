"""The package ``barnabas`` of the wheel: a door, with the house behind it.

In a clone the folders ``broker``, ``protocol``, ``storage``, ``controller`` and
``config`` are imported by these names. In the wheel they lie under
``barnabas/app``, because such names belong to nobody: PyPI has a ``config`` of
its own. This package puts that private root first on ``sys.path`` of the
broker's own process, and touches nobody else's.
"""
