"""The records of `__remote_log_metadata` (KIP-405)."""
