"""The keys and values of `__transaction_state`, and the marker that ends a transaction in a partition."""
