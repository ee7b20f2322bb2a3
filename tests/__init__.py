"""All tests. `make test` runs them; the same code gives the same run, whatever is drawn at random.

What each folder is for, from the pure core outwards:

    tidy/            the house itself: sizes, docstrings, names, layers, honoured configs, the
                     tests' own checkers
    unit/            one package of the product each (`unit/storage` tests `storage`): pure parts, with what
                     surrounds them made by hand; no process, no socket unless sockets are the subject
    contracts/       one set of tests for all implementations of a port: the machine's, and those of tests
    wire/            our messages against Kafka's schemas, Kafka's Java classes and recorded conversations
    properties/      models, random sequences of operations and Hypothesis; `log_stories` is the largest
    simulation/      whole quorums and whole clusters under one seed, their mutants and transcripts; those of
                     a partition's leader and of a transaction coordinator; how to use it: GUIDE.md
    scenarios/       a broker as users start it, doing what the book and the README promise
    interop/         the genuine clients and tools, one file for each client, tool or subject
    side_by_side/    the same calls put to Barnabas and to Apache Kafka, and the differences that are left
    files_of_kafka/  log directories that Apache Kafka wrote, served by us, and the other way round
    quorum/          controllers in processes of their own, ours and Apache Kafka's
    cluster/         several brokers in processes of their own, ours, Apache Kafka's, and mixed
    crash/           processes that are killed with SIGKILL while they write
    hostile/         requests, files and disks that mean harm
    package/         the wheel, the container and the service files
    spark/           a genuine Spark; `spark_newest/` is run by `.ci/spark-newest` with the newest release
    performance/     benchmarks, which are not tests: nothing here passes or fails by a clock
    support/         what tests share; its docstring tells which part holds what

Where a new test goes: to the folder of what it speaks through. A rule of one class belongs to `unit/`, beside
the other tests of that class; what a client sees belongs to `interop/` if a genuine client shows it, and to
`scenarios/` if any client would. A fault that a story, a simulated quorum, the fuzz or a user has found gets
its test beside the other tests of the thing that was at fault, with a name that tells the broken rule.

Hypothesis is derandomized (`tests/conftest.py`), and stories and simulated quorums have fixed seeds. Fresh
seeds are drawn apart from that, as long as you like:

    .ci/run hunt                            ten minutes; HUNT_MINUTES=60 for an hour
    HUNT_SEED=1234 .ci/run hunt             the round with this seed once more

A round is every Hypothesis test with new examples, 2,000 stories of logs, 200 of compaction, 300 simulated
quorums, and 2,000 conversations on each fast lane. It stops at the first failure. What it finds becomes a
test: a Hypothesis example as an explicit call of the rules or as `@example`, a seed in the list of those that
failed once.
"""
