"""Processes that do what would keep the loop busy: compaction, recovery.

* `wire`    what passes between the two, over the worker's standard input and output
* `child`   the worker: `python -m broker worker`, niced, gone when its parent has gone
* `table`   the jobs that a worker knows
* `process` one worker as its parent sees it
* `pool`    `storage.jobs.Workers` over as many of them as are needed at a time; idle ones are let go

A worker shares nothing with the broker but the files; see `storage.jobs`.
"""
