"""The records of KRaft's metadata log, by subject; `frame` is how they lie in a batch."""
