"""The log: partitions as append-only files in Kafka's own formats, byte for byte.

Pure: files, time and helper threads are ports (`config.ports`). In reading order:

* `file_names`      what each file and directory of a log is called, and what the name says
* `slices`          an open file held by count, and a range of it that goes to a socket untouched
* `whole_write`, `file_sync`   all of a write, or an error; what was written reaches the disk
* `index_file`, `offset_index`, `time_index`   sorted entries beside each segment
* `segment`, `log_segments`   one `.log` with its indexes; all of them in a row, the last one written
* `producer_state`, `producer_snapshot`   who wrote last, so that a repeated batch is recognised
* `transactions`, `transaction_index`   which transactions are undecided, which were aborted
* `leader_epochs`   which leader wrote from which offset on
* `append`, `append_queue`   a batch's way in: prepared, written, committed or rolled back
* `durable_log`     segments, producers and epochs, and how all of it reaches the disk
* `log_config`, `partition_log`   one partition: append, read, high watermark
* `lookup`, `time_lookup`, `retention`, `truncation`   finding by offset, by time; what may go; what is cut
* `stored_batches`   a file's batches from end to end
* `leftovers`, `batch_scan`, `recovery`, `loaded_log`, `found_producers`   what a start finds and puts right
* `truncation_markers`       what checkpoints may not be believed of a log that was cut
* `opening`, `recovery_job`, `log_loading`   making and opening a log; many logs after a crash, in workers
* `repair`          what a disk has damaged is cut out
* `places`          so many at a time
* `background_tasks`, `jobs`  what must be done beside the loop: by helper threads, by worker processes
* `checkpoints`, `meta_properties`, `partition_metadata`, `clean_shutdown`   small files around the logs
* `cleaner`         compaction, a package of its own
* `dump`            all files as text for people
* `open_files`      how many segment files stay open
* `move_job`, `rehoming`, `moves`   a log goes to another log directory while it serves
* `failures`        a disk that breaks takes its directory along, and no other
* `directories`, `hosted_logs`, `housekeeping`, `log_manager`   log directories, and all the logs of a node
* `errors`          what the log answers when it cannot
* `memory_files`, `faulty_files`   the other sides of the files port, for tests and the simulator

The controller and the broker build on it; it imports `protocol` and `config` only.
"""
