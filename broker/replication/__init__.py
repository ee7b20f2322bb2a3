"""What this broker does with the partitions that it hosts: lead them, append to them, wait on them.

Reading order:

* `transitions`: the tables of a partition's roles and of its ISR, with the cause of each change;
* `partition_state`: the ISR in the metadata log, or another that the leader asked for and waits for;
* `roles`: what a partition remembers as a leader, as a follower or with a failed disk;
* `partition`: one hosted partition; who leads it, in which epoch, how far it is replicated, who watches it;
* `topic_settings`: from a topic's configuration to what its logs and partitions are told;
* `watched_batches`: which batches of a connection are looked at record by record;
* `delayed_produce`: an acknowledgement that waits for the high watermark;
* `delayed_delete_records`: records deleted at the leader, and the wait for its followers;
* `fetching`: one read pass over what a consumer wants, and the long poll that waits for more;
* `replica_manager`: all hosted partitions; appends and reads, and the image's difference turned into deeds;
* `log_retries`: partitions whose log found no space, tried again.

Pure but for the logs that it is given: no clock, no socket, no thread. The handlers, the coordinators'
composition and the node may import it.
"""
