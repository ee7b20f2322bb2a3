"""How much of the broker one client may use, and how fast replicas are copied.

* `throttle`            decides how long a client is throttled after a request
* `replication_quota`   the rate at which throttled replicas are copied, as their leader or as their follower
"""
