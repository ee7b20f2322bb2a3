"""`barnabas dump` prints the files of a log as text, for people without Java.

The lines are those of `kafka-dump-log`, so that people and scripts that read those can read these.

* `log_file`      `.log` and `.checkpoint`: batches, and with them their records
* `decoders`      records of `__consumer_offsets`, `__transaction_state`, the metadata log … as JSON
* `index_files`   `.index`, `.timeindex`, `.txnindex`, `.snapshot`: entries, and whether they fit the log
* `dump`          chooses the reader of a file by its name
"""
