"""Requests and responses: one module per API, named after it."""
