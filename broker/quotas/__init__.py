"""How much of the broker one client may use, and how fast replicas are copied.

* `throttle`            the place where dispatch asks how long a client is throttled after a request
* `sampled_rate`        how fast something comes, and the throttle time that follows from that
* `rate_quota`          one kind of quota: what each client used lately
* `client_quotas`       all quotas of clients on this broker
* `address_rates`       how fast single addresses may open connections
* `replication_quota`   the rate at which throttled replicas are copied, as their leader or as their follower
"""
