"""The requests and responses. There is one module per API, which has its name; `removed` holds the APIs that
have no versions."""
