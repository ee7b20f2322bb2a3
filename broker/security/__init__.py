"""Security: who may speak to this broker, and which principal may do what.

In reading order:

* `authorizer`           which authorizer there is; without one everything is permitted
* `standard_authorizer`  decides by the access control entries of the metadata log
* `remembered_rules`     the rules that it has found, by client, within a bound of memory
* `audit_log`            tells the operator what was denied
* `mechanism`            what a SASL mechanism is, on either side; PLAIN
* `scram_exchange`       SCRAM, both sides
* `sasl_authenticator`   the state machine by which a connection is authenticated
* `sasl_gate`            what a connection may ask before its client is authenticated
* `der`, `distinguished_name`   the name in a client's certificate, as Java writes it
"""
