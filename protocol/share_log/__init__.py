"""The keys and values of `__share_group_state`."""
