"""What a broker says to the active controller, and what waits for the controller's answer.

In reading order:

* `peer/`                    requests from one role to another, in one process or over a connection
* `forwarding`               requests of clients that the controller answers
* `lifecycle`                registration, heartbeats, fencing and controlled shutdown of this broker
* `alter_partition_manager`  other ISRs for the partitions that this broker leads
* `topic_creation`           topics that are created because a client asked for their metadata
* `producer_ids`             blocks of producer ids
* `directory_assignments`    in which log directory each replica of this broker lies
"""
