"""Our own bounds in one place, and what must hold between them.

An operator sets Kafka's configs; these numbers are the ones that nobody sets, because other parts of the
design lean on them. Each says what happens at the bound. `broken_relations` names every relation that does
not hold, and a test (and the start of the node) sees that it names none.

Sizes are bytes and times milliseconds unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Sockets and turns

SCRATCH_BUFFER_BYTES: Final = 1 * MIB
"""The loop's one receive buffer. A frame that does not fit gets a buffer of its own from the pool."""

SMALL_FRAME_BYTES: Final = 128 * KIB
"""A cut-off frame up to this waits as a copied tail; a longer one gets its own buffer at once, because a tail
is copied again with each read."""

LARGE_FRAME_FIRST_BYTES: Final = 64 * KIB
"""A larger frame's buffer starts with this."""

LARGE_FRAME_GROWTH: Final = 4
"""And never has more than so many times the bytes that arrived, whatever was announced."""

SPARE_FRAME_BYTES: Final = 2 * MIB
"""One buffer up to this is kept for the next large frame: fresh memory costs more than the copy into it."""

LARGE_FRAME_POOL_FRACTION: Final = 0.25
"""Share of memory (or of the cgroup) for frames in flight when queued.max.request.bytes is -1."""

LARGE_FRAME_POOL_MINIMUM_BYTES: Final = 128 * MIB
"""The pool is never smaller, so that one largest request always passes; at the bound reading pauses."""

TURN_REQUESTS: Final = 64
"""Requests of one connection that one turn handles; the rest follows in the next turn of the loop."""

TURN_MS: Final = 2
"""Time after which a turn ends with the request that it is at."""

TURN_SENT_BYTES: Final = 1 * MIB
"""Bytes that one connection may put on the wire in one turn."""

SLOW_TURN_MS: Final = 100
"""A turn of the loop beyond this is logged with API, client and stack."""

WAITING_PRODUCE_PER_CONNECTION: Final = 16
"""Consecutive Produce requests of one connection that may wait for their answers together."""

OUTPUT_QUEUE_PAUSE_BYTES: Final = 8 * MIB
"""Unsent bytes in memory beyond which a connection's requests are not read; file slices do not count."""

OUTPUT_QUEUE_RESUME_BYTES: Final = 2 * MIB
"""The queue's length at which reading goes on."""

ACCEPTS_PER_TURN: Final = 64
"""New connections that one readiness of a listening socket takes before others get their turn."""

ACCEPT_PAUSE_MS: Final = 1000
"""How long accepting rests when the process has no descriptor left (EMFILE)."""

RESERVED_DESCRIPTORS: Final = 256
"""Descriptors that are not given to client connections: logs must roll and checkpoints must be written."""

STARTUP_FRAME_BYTES: Final = 512 * KIB
"""Largest frame before a connection is authenticated (Kafka's sasl.server.max.receive.size by default)."""

# Names and arrays in requests

TOPIC_NAME_LENGTH: Final = 249
"""Kafka's own limit: `name-partition.uuid-delete` must be a file name."""

CLIENT_ID_LENGTH_FOR_METRICS: Final = 128
"""A longer client id is cut where it becomes part of a log line or a label."""

LABELS_PER_METRIC: Final = 10_000
"""Distinct label sets of one metric; what comes later is counted under one label `other`."""

CONFIG_VALUE_LENGTH: Final = 32_767
"""Kafka refuses longer dynamic config values (Short.MAX_VALUE)."""

CONFIG_FILE_BYTES: Final = 1 * MIB
"""A larger server.properties is somebody's mistake."""

METADATA_RECORDS_PER_REQUEST: Final = 10_000
"""Records that one request to the controller may produce (MAX_RECORDS_PER_USER_OP)."""

PARTITIONS_PER_CREATE_REQUEST: Final = 10_000
"""Partitions that one CreateTopics or CreatePartitions may ask for (MAX_PARTITIONS_PER_BATCH)."""

# Records

DECOMPRESSED_BATCH_BYTES: Final = 128 * MIB
"""What one compressed batch may become; beyond it the batch is refused as too large. A bomb ends here. One
that just passes takes twice as much for a moment."""

DECOMPRESSION_STEP_BYTES: Final = 1 * MIB
"""Decompression takes memory in steps of this, so that the bound above is met before the memory is."""

OFFLOADED_COMPRESSION_BYTES: Final = 64 * KIB
"""Batches above this are (de)compressed in a helper thread, smaller ones inline."""

WALKED_BATCHES_PER_CONNECTION: Final = 8
"""With barnabas.record.validation=auto the first batches of a connection on a partition are walked whole."""

PRODUCER_BATCHES_REMEMBERED: Final = 5
"""Batches per producer and partition in which a repeated one is recognised, as in Kafka."""

PREFERRED_DIRECTORIES: Final = 10_000
"""Logs that are not there yet and for which a directory was asked (AlterReplicaLogDirs)."""

# Log

INDEX_PENDING_BYTES: Final = 4 * KIB
"""New index entries wait in memory until this much, a roll or a flush."""

SLOW_DIRECTORY_MS: Final = 20
"""A write that took longer makes the directory slow: appends go through a helper thread for a while."""

SLOW_DIRECTORY_REST_MS: Final = 5_000
"""For so long no write may have been slow before appends write on the loop again."""

WRITES_PER_DIRECTORY: Final = 4
"""Helper threads that write to one directory at a time; a dead disk must leave some to the others."""

APPEND_THREADS: Final = 16
"""Threads for writes to slow directories and for syncs that an append waits for."""

CODEC_NICENESS: Final = 5
"""How far threads that compress stand behind the loop when there are fewer processors than they all want."""

CODEC_THREADS: Final = 8
"""Threads for large batches that are compressed or decompressed; never more than one less than processors."""

APPENDS_PER_WRITE: Final = 256
"""Batches that wait for a partition's file and share its next write, and sync."""

JUDGED_AT_ONCE: Final = 4
"""Large batches of one partition that are decompressed, walked or compressed at the same time."""

WAITING_APPEND_BYTES: Final = 256 * MIB
"""Copies of batches that wait for helper threads, on the whole node; beyond it appends are refused with
REQUEST_TIMED_OUT, which producers try again."""

INLINE_RECOVERY_BYTES: Final = 8 * MIB
"""After a crash so much is read by the starting broker itself; more is worth some worker processes."""

COLD_PROBE_BYTES: Final = 64 * KIB
"""A file slice is asked at this distance whether its bytes are in memory."""

COLD_PART_BYTES: Final = 1 * MIB
"""What a helper thread sends of a cold slice at once."""

COLD_READ_THREADS: Final = 4
"""Threads for cold slices, apart from the others: a slow disk must not keep a sync of another one waiting."""

HELPER_THREADS: Final = 8
"""Threads for single system calls; waiting calls queue in order."""

SYNC_THREADS: Final = 8
"""Threads that sync the files of one log, if they are many."""

ENDING_THREADS: Final = 32
"""Threads that sync logs at the end of a node: nothing is served any more, and syncs share the disk."""

# Administration

ADMIN_REQUEST_BYTES: Final = 8 * KIB
"""Largest HTTP request head at the admin listener; bodies are not read."""

ADMIN_CONNECTIONS: Final = 64
"""Connections at the admin listener; the next one is closed at once."""

WAITING_REQUESTS: Final = 100_000
"""Requests in the purgatories together; beyond it a fetch is answered at once with what there is."""


def broken_relations() -> list[str]:
    """Every relation between the limits that does not hold, as a sentence; empty when all is well."""
    relations = (
        (TURN_SENT_BYTES <= OUTPUT_QUEUE_RESUME_BYTES, "a turn's output fits under the resume mark"),
        (OUTPUT_QUEUE_RESUME_BYTES < OUTPUT_QUEUE_PAUSE_BYTES, "reading resumes below where it paused"),
        (LARGE_FRAME_FIRST_BYTES <= SCRATCH_BUFFER_BYTES, "a large frame starts no larger than scratch"),
        (SMALL_FRAME_BYTES <= SCRATCH_BUFFER_BYTES, "a small frame fits the scratch buffer"),
        (SMALL_FRAME_BYTES <= SPARE_FRAME_BYTES, "a spare buffer is worth keeping"),
        (STARTUP_FRAME_BYTES <= SCRATCH_BUFFER_BYTES, "an unauthenticated frame fits the scratch buffer"),
        (TURN_MS < SLOW_TURN_MS, "an ordinary turn is not a slow one"),
        (SLOW_DIRECTORY_MS < SLOW_TURN_MS, "a directory is slow before it makes a turn slow"),
        (SLOW_DIRECTORY_MS < SLOW_DIRECTORY_REST_MS, "a slow directory rests longer than one slow write"),
        (2 * WRITES_PER_DIRECTORY <= APPEND_THREADS, "two dead disks leave threads to a third"),
        (WAITING_APPEND_BYTES >= DECOMPRESSED_BATCH_BYTES, "the largest batch may wait"),
        (WAITING_PRODUCE_PER_CONNECTION <= TURN_REQUESTS, "a turn can fill the produce window"),
        (DECOMPRESSION_STEP_BYTES * 16 <= DECOMPRESSED_BATCH_BYTES, "decompression has many steps"),
        (OFFLOADED_COMPRESSION_BYTES <= DECOMPRESSION_STEP_BYTES, "inline decompression needs one step"),
        (0 < LARGE_FRAME_POOL_FRACTION < 1, "the frame pool is a part of memory"),
        (WALKED_BATCHES_PER_CONNECTION >= PRODUCER_BATCHES_REMEMBERED, "a producer's first window is walked"),
        (ADMIN_CONNECTIONS < RESERVED_DESCRIPTORS, "admin connections fit the reserve"),
        (ACCEPTS_PER_TURN < RESERVED_DESCRIPTORS, "one accept turn fits the reserve"),
    )
    return [sentence for holds, sentence in relations if not holds]
