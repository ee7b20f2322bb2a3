"""The fast lane: requests that differ from an earlier one of their connection only in what changes each time.

Nearly all Produce requests of a producer have one batch for one partition, and the bytes before the batch are
those of its last request. Nearly all Fetch requests of a consumer differ from the last one in the session's
epoch and in one offset. So a connection remembers a few requests that took the long way (decoding, handler,
encoding): their bytes, and what was decided for them. A request with the same bytes is answered from that
memory. Whatever is not plain is declined before it has had any effect, and the long way decides and answers.

::

    Connection._parse ──▶ lane.take ──▶ the answers of all plain requests that lie next to each other
                              └─ declined ──▶ Dispatcher.serve ──▶ remembers the request, if it was plain

**What a new feature on this path must do.** The lane repeats decisions, so a feature that takes part in them
(an ACL, a quota, a new field of the request, a new state of a partition) does one of three things:

1. It bumps the node's one `LaneEpoch` whenever a decision may turn out otherwise, *before* the next request
   can come. Everything that was remembered is then forgotten, and the next request takes the long way.
   The metadata image, every change of a partition's standing and dynamic broker configs do so already.
2. It declines: `remember` keeps no request that the feature touches, or `take` leaves it to the long way.
   The quotas of clients do so: while there are some, `broker.quotas.throttle.UnlessThrottled` stands before
   the lanes.
3. It asks with each request, where the question costs less than 50 ns and belongs to the request (the log's
   rules, a producer's sequence, a segment that is full).

A test in `tests/unit/broker/fast_lane/test_epoch.py` makes a change of each kind between two requests of one
read; a new kind belongs there.

In reading order:

* `epoch`        the one number that says whether what was remembered still holds
* `remembered`   the bytes that a connection remembers, and how a request is compared with them
* `produce_lane` Produce with one batch for one partition
* `waiting_produce` the same, while its batch is replicated
* `fetch_lane`    Fetch of one partition, in a session or without
* `waiting_fetch` the same, as a long poll
* `plain_fetches`  what that lane remembers: bytes, what they read, and the frame of the answer
"""
