"""The assignors of consumer groups: from subscriptions and the last assignment to the next one.

In reading order:

* `group_spec`              what an assignor is told of a group, and what it answers
* `range_assignor`          neighbouring partitions of each topic
* `uniform_assignor`        equal shares and few moves, where all members subscribe the same topics
* `uniform_heterogeneous`   the same where they do not

They are functions without memory. For the same input, in the same order, the answers are those of the classes
of the same names in Apache Kafka 4.3.1, which ignore racks.
"""
