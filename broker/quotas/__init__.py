"""How much of the broker one client may use.

* `throttle`   how long a client must be quiet after a request
"""
