"""The log: partitions as append-only files in Kafka's own formats, byte for byte.

Pure: files, time and helper threads are ports (`config.ports`). In reading order:

* `file_names`                        the names of the files and directories of a log
* `errors`                            the errors of a log
* `slices`                            open files with a count of users, and ranges of them for a socket
* `file_io`                           writes that are whole, and how what was written reaches the disk
* `index_file`, `offset_index`, `time_index`   sorted entries beside each segment
* `segment`, `log_segments`           one `.log` with its indexes, and all segments of a log
* `producer_state`, `producer_snapshot`   the last batches of each producer, to recognise repeated ones
* `transactions`, `transaction_index`     transactions that may begin or are open, and those that were aborted
* `leader_epochs`                     the first offset of each leader epoch
* `append`, `append_checks`, `append_queue`   a batch on its way in: checked, committed or rolled back
* `waiting_append`, `append_lane`     one append that waits for helper threads, and where those of a log wait
* `group_write`                       what such a thread writes
* `append_pipeline`                   whether an append waits, and the stages of each that is not done inline
* `log_disk`                          whether the disk under a log is slow, and the threads that write to it
* `log_durability`                    how segments, producers and epochs reach the disk
* `log_config`, `partition_log`       one partition, which owns these parts: append, read, high watermark
* `lookup`, `time_lookup`             finds batches by offset, and records by time
* `plain_appends`                     several batches that need nothing but their place, by one write
* `retention`, `truncation`           which segments expire, and how a log is truncated
* `truncation_markers`                says that checkpoints are not valid for a log that was truncated
* `compaction_marker`                 says which missing offsets compaction has left out
* `stored_batches`, `batch_scan`      the batches of a file from end to end, and the next one behind damage
* `leftovers`, `recovery`             puts in order what a crash left in a partition's directory
* `loaded_log`, `loaded_producers`    what a partition's directory holds, as a log is made of it
* `opening`, `log_loading`            makes and opens a log, and opens all logs of a node at its start
* `recovery_job`                      recovers logs in a worker process
* `repair`                            cuts out what a disk has damaged
* `permits`                           lets so many use memory at a time, the others in order
* `background_tasks`, `background_task_lanes`   tasks beside the loop, and the order in which they run
* `jobs`                              work for worker processes, as plain values
* `checkpoints`, `meta_properties`, `clean_shutdown`   small files beside the logs
* `cleaner/`                          compaction
* `dump/`                             all files as text
* `open_files`                        how many segment files stay open
* `replica_directory_moves`, `replica_directory_move_job`   moves a log to another log directory
* `failures`                          takes a log directory offline when its disk fails
* `directories`, `hosted_logs`        one log directory, and which logs a node has in which directory
* `housekeeping`                      repeated work for all logs: checkpoints, retention, compaction
* `log_manager`                       all logs of a node
* `memory_files`, `faulty_files`      files in memory, and files that fail, for tests and the simulator

The controller and the broker build on it; it imports `protocol` and `config` only.
"""
