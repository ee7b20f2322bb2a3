"""Committed offsets: how far each group has come.

In reading order:

* `offset_records`                  how an offset lies in `__consumer_offsets`
* `committed_offsets`               offsets by group, topic and partition
* `pending_transactional_offsets`   what open transactions would commit
* `topic_deletions`                 what becomes of the offsets of deleted topics
* `offset_metadata_manager`         how records change both, live and while loading
* `commit`, `fetch`                 OffsetCommit and OffsetFetch
* `transactional_commit`            TxnOffsetCommit
* `deletion`                        groups and offsets that somebody deletes
* `expiry`                          offsets and groups that nobody needs any longer

The group coordinator imports it.
"""
