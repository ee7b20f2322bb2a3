"""Security: who may speak to this broker, and which principal may do what.

In reading order:

* `authorizer`   permits every operation, as Kafka does while no authorizer is configured
* `sasl_gate`    what a connection may ask before its client is authenticated
* `der`, `distinguished_name`   the name in a client's certificate, as Java writes it
"""
