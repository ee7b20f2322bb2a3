"""Followers: what this broker copies from the leaders of its partitions.

In reading order:

* `fetch_transitions`      the table of the states of a partition that is copied, and of what changes them
* `session`                what a leader remembers of a follower's fetches from request to request
* `partition_fetch`        one partition: its state, what it asks for, and what an answer means
* `fetch_plan`             all partitions of one fetcher, and what the next fetch asks for
* `followed_log`           what a fetcher does to the log of a partition, and where it cuts it
* `fetcher_surroundings`   the settings, clock and timers of all fetchers, and whom they tell
* `leader_requests`        what is asked of a leader, as messages
* `replica_fetcher`        one connection to one leader, and all that is copied over it
* `fetcher_manager`        all fetchers of a broker, made and closed as partitions come and go

Up to `fetch_plan` everything is a pure function of what was asked and answered, with time as an argument. The
rest acts on logs and on a channel that it is given; it knows no socket, no clock and no thread of its own.
"""
