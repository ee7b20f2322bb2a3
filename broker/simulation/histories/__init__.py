"""What clients did to a cluster and were told by it, and the judge of what was promised and did not hold.

In reading order:

* `history`         the format: one line of JSON after the other, in the order of time
* `anomalies`       what must not happen, by name, and how it is told to people
* `evidence`        what a history says about each record
* `record_checks`   the checks of single records: lost, twice, at two places, skipped
* `transaction_checks`  the checks of transactions: aborted, torn, in a circle
* `checker`         the verdict, and the command that prints it

May be imported by `broker.cli`, by the simulated clients and by tests. Imports nothing of the broker.
"""
