"""What KRaft itself writes: control records, and the quorum-state file."""
