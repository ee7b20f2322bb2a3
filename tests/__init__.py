"""All tests. `make test` runs them; the same code gives the same run, whatever is drawn by chance.

Hypothesis is derandomized (`tests/conftest.py`), and stories and simulated quorums have fixed seeds. Fresh
seeds are drawn apart from that, as long as you like:

    .ci/run hunt                            ten minutes; HUNT_MINUTES=60 for an hour
    HUNT_SEED=1234 .ci/run hunt             the round with this seed once more

A round is every Hypothesis test with new examples, 2,000 stories of logs, 200 of compaction and 300 simulated
quorums. It stops at the first failure. What it finds becomes a test: a Hypothesis example as an explicit call
of the rules or as `@example`, a seed in the list of those that failed once.
"""
