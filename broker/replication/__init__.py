"""The partitions that this broker hosts: how they are led, appended to, read, and waited for.

In reading order:

* `transitions`              the tables of a partition's roles and of its ISR, with the cause of each change
* `partition_state`          the ISR in the metadata log, or another that the leader asked for and waits for
* `roles`                    what a partition remembers as a leader, as a follower or with a failed disk
* `partition_listeners`      who is told when a partition changes, and of what; who changes its ISR
* `partition`                one hosted partition; who leads it, in which epoch, how far it is replicated, who
  watches it
* `isr_maintenance`          which followers are to join an ISR or to leave it, and what the controller said
* `topic_settings`           what the partitions of a topic share: its configuration, and counters
* `watched_batches`          which batches of a connection are looked at record by record
* `waiting_appends`          the disk under each log, and the lanes of appends that wait for helper threads
* `appending`                batches appended to the partitions that this broker leads
* `coordinator_log`          the partitions of the coordinators' topics, as the coordinators write and read
  them
* `replica_manager`          all hosted partitions, and the difference between two images turned into deeds
* `log_retries`              partitions whose log found no space, tried again
* `delayed_produce`          an acknowledgement that waits for helper threads or for the high watermark
* `delayed_delete_records`   records deleted at the leader, and the wait for its followers
* `fetch_sessions`           what a consumer or follower wants, remembered from request to request
* `reading`                  one partition read for a fetch, behind every check that stands before a read
* `leader_replication`       what followers are sent, and what throttled ones do not get for now
* `replica_selector`         the replica that a consumer should read from
* `delayed_fetch`            a fetch that waits for more to read
* `fetcher/`                 the partitions that this broker follows, copied from their leaders

It gives values, and the handlers shape the responses: nothing here imports a response of the protocol. Pure
but for the logs that it is given: no clock, no socket, no thread. The handlers, the coordinators'
composition and the node may import it.
"""
