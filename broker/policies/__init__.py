"""The operator's own rules on new topics and altered configs, run where they can do no harm.

A policy is code that we did not write: it may import a `config` of its own, print, hang or crash. So it runs
in a child process with its own interpreter, on whose path nothing of ours lies, and is asked over pipes, by
the wire and with the class of child process of `broker.workers`.

In reading order:

* `runner`    what runs in the child: it loads the policies, asks them, and imports nothing of ours; its head
              is the interface that an author of policies reads
* `process`   the child as the controller sees it

Imported by `broker.server` alone.
"""
