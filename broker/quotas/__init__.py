"""How much of the broker one client may use.

* `throttle`   decides how long a client is throttled after a request
"""
