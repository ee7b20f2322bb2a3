"""Processes that do what would keep the loop busy: compaction, recovery, moves between directories.

In reading order:

* `wire`            what passes between a node and a child process, over the child's standard input and
                    output
* `child`           the worker's side, `python -m broker worker`: it is niced, knows the jobs by name, and
                    goes when its parent has gone
* `child_process`   one child process as its parent sees it; the process of the policies is one, too
* `pool`            `storage.jobs.Workers` over as many workers as are needed at a time; idle ones are let go

A worker shares nothing with the broker but the files; see `storage.jobs`.
"""
