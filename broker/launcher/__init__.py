"""The package ``barnabas`` of the wheel: it starts the broker without getting in the way of other packages.

In a clone the folders ``broker``, ``protocol``, ``storage``, ``controller`` and
``config`` are imported by these names. In the wheel they lie under
``barnabas/app``, because such names belong to nobody: PyPI has a ``config`` of
its own. Only the process of the broker gets that folder on its path; other processes import:

* `__main__`        ``barnabas …``, and ``python -I -m barnabas …``
* `embedded`        ``Broker``: a broker for a test, a script or a notebook, in a process of its own
* `node_process`    that process, from its start to its end; a cluster has several
* `child`           what that process runs
* `topics`          how ``Broker`` makes topics
* `pytest_plugin`   the fixtures ``barnabas_broker`` and ``barnabas_topic``
* `door/`           what ``import barnabas`` finds: ``PYTHONPATH=<clone>/broker/launcher/door`` opens it
  without an installation

Everything here runs in strangers' processes: it imports the standard library, the modules of this package by
relative names, pytest in the plug-in, and nothing else.
"""
