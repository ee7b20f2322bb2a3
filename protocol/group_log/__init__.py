"""The keys and values of `__consumer_offsets`, by kind of group; `frame` is how they lie in a record."""
