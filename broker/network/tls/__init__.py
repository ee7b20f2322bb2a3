"""TLS between a socket and its connection: for the listeners of SSL and SASL_SSL, and for connections to
other nodes. The parts of a connection that is not encrypted know nothing of it.

In reading order:

* `jks`        key stores in Java's own older format
* `stores`     key stores and trust stores (PEM, PKCS12, JKS), opened and checked
* `contexts`   what OpenSSL is told: keys, trust, versions, cipher suites
* `records`    what has arrived, given to a session a few records at a time
* `filter`     bytes in and out of one TLS session in memory, beside its socket
* `handshakes` whose turn it is to go on with a handshake
* `channel`    `sockets.SocketChannel` with that filter in front of its socket: handshake, reading, the end
* `sides`      a listener's side, and the side of a node that connects to others

The network of this machine imports it (`socket_network`, `acceptor`), and the command line, which asks other
clusters. Settings come as `config.tls_settings.TlsSettings`; the names of clients are read by
`broker.security.distinguished_name`.
"""
