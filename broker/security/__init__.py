"""Who may do what.

* `authorizer`   permits everything, as Kafka does while no authorizer is configured
"""
