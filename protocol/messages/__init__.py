"""Requests and responses. One module per API, named after it; `removed` has the APIs without versions."""
