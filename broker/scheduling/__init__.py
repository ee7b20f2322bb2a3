"""Work on the loop that must not delay clients.

In reading order:

* `long_work`   work that is longer than a turn of the loop, done a slice at a time
* `lookups`     requests that are answered in steps, within a bound on the memory that they take together
* `idle_work`   work that waits until the loop is idle
"""
