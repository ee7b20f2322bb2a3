"""Security: which principal may do what.

* `authorizer`   permits every operation, as Kafka does while no authorizer is configured
"""
