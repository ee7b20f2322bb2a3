"""The log: partitions as append-only files in Kafka's own formats, byte for byte.

Pure: files, time and helper threads are ports (`config.ports`). In reading order:

* `file_names`      what each file and directory of a log is called, and what the name says
* `slices`          an open file held by count, and a range of it that goes to a socket untouched
* `index_file`, `offset_index`, `time_index`, `transaction_index`   sorted entries beside each segment
* `segment`         one `.log` with its indexes: append, look up, recover
* `producer_state`, `producer_snapshot`   who wrote last, so that a repeated batch is recognised
* `leader_epochs`   which leader wrote from which offset on
* `append`          a batch's way in: checked, prepared, written, committed
* `partition_log`   one partition: the segments in a row, append, read, high watermark
* `lookup`, `retention`, `recovery`   by timestamp and epoch; what may go; what a crash left
* `checkpoints`, `meta_properties`, `partition_metadata`, `clean_shutdown`   small files around the logs
* `directories`, `log_manager`   log directories, and all the logs of a node
* `memory_files`, `faulty_files`   the other sides of the files port, for tests and the simulator

The controller and the broker build on it; it imports `protocol` and `config` only.
"""
