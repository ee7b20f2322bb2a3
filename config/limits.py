"""Our own bounds in one place, and what must hold between them.

An operator sets Kafka's configs; these numbers are the ones that nobody sets, because other parts of the
design lean on them. Each says what happens at the bound. `broken_relations` names every relation that does
not hold, and a test sees that it names none.

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
"""The size with which the buffer of a large frame starts."""

LARGE_FRAME_GROWTH: Final = 4
"""And never has more than so many times the bytes that arrived, whatever was announced."""

SPARE_FRAMES_BYTES: Final = 16 * MIB
"""Buffers of large frames that are kept for the next ones, all together: memory that is made anew costs more
than all else that is done with a frame."""

LARGE_RECEIVE_BYTES: Final = 4 * MIB
"""The kernel's receive buffer of a connection that has brought large frames, where net.core.rmem_max
allows it."""

TLS_HANDSHAKE_MS: Final = 30_000
"""A connection over TLS whose handshake is not complete by then is closed."""

TLS_HANDSHAKE_BYTES: Final = 256 * KIB
"""And one whose peer has sent more than this by then; certificates take some kilobytes."""

TLS_PART_BYTES: Final = 64 * KIB
"""The bytes that are encrypted before the socket has to take them, and those of records that are read at
once: a session keeps memory for so much."""

TLS_UNSENT_BYTES: Final = 256 * KIB
"""A peer that makes its TLS session answer so much by itself, and does not read it, is given up."""

TLS_TURN_RECORDS: Final = 128
"""The records that a TLS session is given in one turn of the loop: 2 MiB if they are full, 1.2 MB of those of
librdkafka. Those that ask for new keys take some twenty microseconds each, and 27 bytes of wire."""

TLS_SILENT_BYTES: Final = 64 * KIB
"""A peer that sends more in records without any data between them is given up. One record has 16 KiB."""

LARGE_RECEIVE_LEAST_BYTES: Final = 1 * MIB
"""If the machine allows less than this, the kernel's own sizing is better, and it is left alone."""

LARGE_FRAME_POOL_FRACTION: Final = 0.25
"""Share of memory (or of the cgroup) for frames in flight when queued.max.request.bytes is -1."""

LARGE_FRAME_POOL_MINIMUM_BYTES: Final = 128 * MIB
"""The pool is never smaller, so that one largest request always passes; at the bound reading pauses."""

TURN_REQUESTS: Final = 64
"""Requests of one connection that one turn handles; the rest follows in the next turn of the loop."""

TURN_MS: Final = 2
"""The time after which a connection's turn ends, once the request in progress is done."""

TURN_SENT_BYTES: Final = 1 * MIB
"""The bytes of responses after which a connection's turn ends."""

PLAIN_REQUEST_BYTES: Final = 2 * KIB
"""A request up to this is handled in one go: two thousand names of one byte take some five milliseconds. What
is longer is done in turns, if its handler can be interrupted; so is a shorter one where a name may stand for
much (`ServedApi.plain`)."""

LONG_REQUEST_BYTES: Final = 64 * KIB
"""Beyond this a request is decoded in turns and under a budget whatever its handler can do, and no two of
that kind are at work at a time, so that the memory which one may take is all that they take."""

LONG_REQUESTS_AT_ONCE: Final = 8
"""Requests between the two that are at work in turns together; the next one waits for its place."""

LONG_TURN_MS: Final = 4
"""The time that a request that is served in steps may take of one turn of the loop."""

REQUEST_MEMORY_BYTES: Final = 32 * MIB
"""What the arrays of one request may take once they are decoded; beyond it the connection is closed before
they exist. A hundred thousand partitions fit into any request, and 500,000 group names."""

ONE_STEP_MEMORY_BYTES: Final = 4 * MIB
"""The same for a request of which a part is one step, because its handler, a coordinator or the controller
decides it as a whole: some twenty thousand topics, resources or members."""

OFFSET_FETCH_MEMORY_BYTES: Final = 24 * MIB
"""The same for OffsetFetch, whose answer takes thrice as much: a hundred thousand topics, or six times as
many partitions."""

FETCH_MEMORY_BYTES: Final = 6 * MIB
"""The memory for a Fetch request, which is handled in one step: twenty thousand partitions of one broker."""

PRODUCE_MEMORY_BYTES: Final = 8 * MIB
"""The memory for a Produce request: fifty thousand partitions, without their records."""

JOIN_MEMORY_BYTES: Final = 1 * MIB
"""The memory for a JoinGroup request, whose protocols are kept as long as the member: some thousand of
them."""

OFFSETS_PER_COMMIT: Final = 25_000
"""One commit is one batch, and more offsets than this make a larger one than `__consumer_offsets` takes
(max.message.bytes is 1 MiB); they are refused as the log would refuse them, but before the work."""

ANSWER_BYTES: Final = 64 * MIB
"""The longest answer to a request that is done in turns; beyond it the connection is closed. One that names
the same thing again and again may ask for any number of gigabytes."""

PRODUCERS_PER_ANSWER: Final = 400_000
"""The producers of one answer to DescribeProducers, which exist as objects until their topic is encoded: some
32 MiB. Beyond it the connection is closed."""

LONG_WORK_TURN_MS: Final = 1
"""The time of each turn of the loop that all long work gets together."""

LOOKUP_INLINE_MS: Final = 1
"""The time after which a look-up by time goes on in slices, beside other requests."""

SLOW_TURN_MS: Final = 100
"""A turn of the loop that takes longer is logged, with API, client and stack."""

WAITING_PRODUCE_PER_CONNECTION: Final = 16
"""Consecutive Produce requests of one connection that may wait for their answers together."""

WAITING_PRODUCE_BYTES: Final = 1 * MIB
"""No further request of a connection begins while those whose batches are not in the log yet, but copied for
the walk of a large one or for a helper thread, have so many bytes together."""

LANE_REQUESTS_REMEMBERED: Final = 64
"""Requests of one connection and API whose bytes are remembered for the fast lane, those of all its fetch
sessions together; others take the long way."""

LANE_SHAPES: Final = 8
"""Layouts among them: they are tried one after the other with each request."""

LANE_KEY_BYTES: Final = 1 * KIB
"""A request with more bytes before what changes in it is not remembered."""

OUTPUT_QUEUE_PAUSE_BYTES: Final = 8 * MIB
"""Unsent bytes in memory beyond which a connection's requests are not read; file slices do not count."""

OUTPUT_QUEUE_RESUME_BYTES: Final = 2 * MIB
"""The length of the output queue at which the connection is read again."""

ACCEPTS_PER_TURN: Final = 64
"""New connections that one readiness of a listening socket takes before others get their turn."""

ACCEPT_PAUSE_MS: Final = 1000
"""How long a listener pauses when the process has no descriptor left (EMFILE)."""

RESERVED_DESCRIPTORS: Final = 256
"""Descriptors that are not given to client connections: logs must roll and checkpoints must be written."""

# Names and arrays in requests

TOPIC_NAME_LENGTH: Final = 249
"""The longest topic name. It is Kafka's limit: `name-partition.uuid-delete` must be a file name."""

CLIENT_ID_LENGTH_IN_LOGS: Final = 128
"""The length at which a client id, or the name of a client's software, is cut off in log lines. Client
ids are no labels of metrics."""

SOFTWARE_NAME_LENGTH_FOR_METRICS: Final = 256
"""The length at which the name and the version of a client's software are cut off, because metrics have them
as labels."""

LABELS_PER_METRIC: Final = 10_000
"""Distinct label sets of one metric whose labels clients choose; what comes later is counted under one label
`other`. Topics, partitions and brokers are all told of."""

CONFIG_VALUE_LENGTH: Final = 32_767
"""The longest value of a dynamic config; Kafka refuses longer ones (Short.MAX_VALUE)."""

CONFIG_FILE_BYTES: Final = 1 * MIB
"""The largest server.properties; a larger one is taken for a mistake."""

METADATA_RECORDS_PER_REQUEST: Final = 10_000
"""Records that one request to the controller may produce (MAX_RECORDS_PER_USER_OP)."""

METADATA_RECORDS_PER_STEP: Final = 200
"""Decoded or replayed in one go by a broker that serves others in between: some four milliseconds."""

NAMED_PER_REQUEST: Final = 20_000
"""Topics, partitions, resources and configs that one request to the controller may name. More would make more
records than it may, as Kafka would find when it has made them; here they are refused, with the same answer,
before they are looked at."""

ACL_MATCHES_PER_REQUEST: Final = 50_000
"""Access control entries that the answer to one DeleteAcls may list. An entry is listed for each filter that
means it."""

ACLS_WALKED_PER_REQUEST: Final = 100_000
"""Access control entries that one DeleteAcls may look at with filters that do not name their resource,
counted for each such filter: some 200 milliseconds."""

PARTITIONS_PER_CREATE_REQUEST: Final = 10_000
"""Partitions that one CreateTopics or CreatePartitions may ask for (MAX_PARTITIONS_PER_BATCH)."""

# Records

DECOMPRESSED_BATCH_BYTES: Final = 128 * MIB
"""What one compressed batch may become; beyond it the batch is refused as too large. A bomb ends here. One
that just passes takes twice as much for a moment."""

OFFLOADED_COMPRESSION_BYTES: Final = 64 * KIB
"""Batches above this are (de)compressed in a helper thread, smaller ones inline."""

WALKED_BATCHES_PER_CONNECTION: Final = 8
"""With barnabas.record.validation=auto all records of the first batches of a connection on a partition are
read: so many of small ones."""

WALKED_BYTES_PER_CONNECTION: Final = 128 * KIB
"""Of larger batches fewer are read: the first one, and more until they have these bytes together."""

WALKED_PARTITIONS_PER_CONNECTION: Final = 256
"""A connection that has written to so many partitions has no batch walked any more. What is counted for one
takes some 150 bytes as long as the connection lasts."""

WALKED_ON_NODE_BYTES: Final = 4 * MIB
"""Batches behind a connection's first one on a partition are read as long as the node has read less than
this within a second: some 25 ms of the loop with records of 100 bytes."""

PRODUCER_BATCHES_REMEMBERED: Final = 5
"""Batches per producer and partition in which a repeated one is recognised, as in Kafka."""

PREFERRED_DIRECTORIES: Final = 10_000
"""Logs that are not there yet and for which a directory was asked (AlterReplicaLogDirs)."""

LARGE_LOOKUPS: Final = 8
"""Look-ups by time that unfold a large batch at the same time, with some 8 MiB each; the others wait."""

LARGEST_LOOKUPS: Final = 1
"""Look-ups by time that unfold at the same time a batch that needs up to 128 MiB of memory."""

# Log

INDEX_PENDING_BYTES: Final = 4 * KIB
"""New index entries are written when they take this much memory, and when the segment rolls or is flushed."""

SLOW_DIRECTORY_MS: Final = 20
"""A timed write that took longer than this is examined. If it waited longer than this for the disk, its
directory counts as slow, and appends to it go through a helper thread for a while."""

WATCHED_DIRECTORY_MS: Final = 1_000
"""How long after a long write each timed write is asked what it waited for."""

WATCHED_WRITES: Final = 16
"""The least number of writes that are examined after a long one, because a quiet log writes less in that
time."""

SLOW_DIRECTORY_REST_MS: Final = 500
"""How long no write may have been slow before appends are written by the loop again."""

SLOW_DIRECTORY_LONGEST_REST_MS: Final = 8_000
"""The longest time for which a directory stays slow. The time doubles each time the directory becomes slow
again soon after."""

SLOW_DIRECTORY_RELAPSE_MS: Final = 30_000
"""A directory that becomes slow within this time after it was declared fast again counts as slow again."""

WRITES_PER_DIRECTORY: Final = 4
"""Helper threads that may write to one directory at the same time, so that a dead disk leaves some to the
others."""

APPEND_THREADS: Final = 16
"""Threads for writes to slow directories and for syncs that an append waits for."""

CODEC_NICENESS: Final = 5
"""The niceness of threads that compress, on a machine with too few processors for them and the loop."""

CODEC_THREADS: Final = 8
"""Threads for large batches that are compressed or decompressed; never more than one less than processors."""

APPENDS_PER_WRITE: Final = 256
"""Batches that wait for a partition's file and share its next write, and sync."""

JUDGED_AT_ONCE: Final = 4
"""Large batches of one partition that are decompressed, walked or compressed at the same time."""

JUDGED_ON_NODE: Final = 8
"""Those of all partitions; each may unfold into `JUDGED_BYTES`, and takes up to three times as much."""

JUDGED_BYTES: Final = 8 * MIB
"""A batch that unfolds into more is begun again when it is its turn among those, one at a time."""

WAITING_APPEND_BYTES: Final = 256 * MIB
"""Copies of batches that wait for helper threads, on the whole node; beyond it appends are refused with
REQUEST_TIMED_OUT, which producers try again."""

INLINE_RECOVERY_BYTES: Final = 8 * MIB
"""After a crash so much is read by the starting broker itself; more is worth some worker processes."""

COLD_PROBE_BYTES: Final = 64 * KIB
"""The distance between the bytes of a file slice for which the kernel is asked whether they are in memory."""

COLD_PART_BYTES: Final = 1 * MIB
"""The bytes of a cold slice that a helper thread sends at once."""

COLD_READ_THREADS: Final = 4
"""Threads for cold slices, apart from the others: a slow disk must not keep a sync of another one waiting."""

HELPER_THREADS: Final = 8
"""Threads for single system calls; further calls wait in order."""

SYNC_THREADS: Final = 8
"""Threads that sync the files of one log if there are many of them."""

ENDING_THREADS: Final = 32
"""Threads that sync logs when the node stops; nothing is served any more, and the syncs share the disk."""

# Administration

METERED_CLIENTS: Final = 4_096
"""Clients of which a node remembers what they used of one kind of quota, at some 3 KiB each; the one that
was silent for longest is forgotten for a new one."""

HELD_CONNECTIONS: Final = 256
"""Connections per listener that come faster than their address may, and are closed a moment later; a further
one is closed at once."""

ADMIN_REQUEST_BYTES: Final = 8 * KIB
"""The largest HTTP request head at the admin listener; bodies are not read."""

ADMIN_CONNECTIONS: Final = 64
"""Connections at the admin listener; a further one is closed at once."""

WAITING_REQUESTS: Final = 100_000
"""Requests in the purgatories together; beyond it a fetch is answered at once with what there is."""


def broken_relations() -> list[str]:
    """Every relation between the limits that does not hold, as a sentence; empty when all is well."""
    relations = (
        (TURN_SENT_BYTES <= OUTPUT_QUEUE_RESUME_BYTES, "a turn's output fits under the resume mark"),
        (OUTPUT_QUEUE_RESUME_BYTES < OUTPUT_QUEUE_PAUSE_BYTES, "reading resumes below where it paused"),
        (LARGE_FRAME_FIRST_BYTES <= SCRATCH_BUFFER_BYTES, "a large frame starts no larger than scratch"),
        (SMALL_FRAME_BYTES <= SCRATCH_BUFFER_BYTES, "a small frame fits the scratch buffer"),
        (SMALL_FRAME_BYTES * 8 <= SPARE_FRAMES_BYTES, "several spare buffers are kept"),
        (LARGE_RECEIVE_LEAST_BYTES <= LARGE_RECEIVE_BYTES, "a larger receive buffer is a larger one"),
        (TURN_MS < SLOW_TURN_MS, "an ordinary turn is not a slow one"),
        (2 * TLS_PART_BYTES <= TLS_UNSENT_BYTES, "a part that waits for its socket is no fault of the peer"),
        (
            LONG_TURN_MS * LONG_REQUESTS_AT_ONCE < SLOW_TURN_MS,
            "first turns together are no slow one",
        ),
        (PLAIN_REQUEST_BYTES < LONG_REQUEST_BYTES, "a long request is none that is handled in one go"),
        (
            LONG_REQUEST_BYTES <= SMALL_FRAME_BYTES,
            "what is longest has a buffer of its own",
        ),
        (
            LONG_REQUESTS_AT_ONCE * LONG_REQUEST_BYTES < REQUEST_MEMORY_BYTES,
            "many short take less than one",
        ),
        (OUTPUT_QUEUE_PAUSE_BYTES < ANSWER_BYTES, "an answer may be longer than what a queue pauses at"),
        (
            2 * (TOPIC_NAME_LENGTH + CLIENT_ID_LENGTH_IN_LOGS) <= LANE_KEY_BYTES,
            "a request of ordinary names can be remembered",
        ),
        (LONG_WORK_TURN_MS <= TURN_MS, "long work gets no more of a turn than a connection"),
        (LOOKUP_INLINE_MS <= TURN_MS, "a look-up may begin within a turn"),
        (2 * METADATA_RECORDS_PER_REQUEST <= NAMED_PER_REQUEST, "as many records may be asked for as made"),
        (METADATA_RECORDS_PER_REQUEST <= ACL_MATCHES_PER_REQUEST, "as many entries may be listed as removed"),
        (SLOW_DIRECTORY_MS < SLOW_TURN_MS, "a directory is slow before it makes a turn slow"),
        (SLOW_DIRECTORY_MS < SLOW_DIRECTORY_REST_MS, "a slow directory rests longer than one slow write"),
        (SLOW_DIRECTORY_REST_MS < SLOW_DIRECTORY_LONGEST_REST_MS, "a directory's rest can grow"),
        (SLOW_DIRECTORY_LONGEST_REST_MS < SLOW_DIRECTORY_RELAPSE_MS, "a relapse can come after any rest"),
        (SLOW_DIRECTORY_MS < WATCHED_DIRECTORY_MS, "a directory is watched longer than one slow write"),
        (2 * WRITES_PER_DIRECTORY <= APPEND_THREADS, "two dead disks leave threads to a third"),
        (JUDGED_AT_ONCE <= JUDGED_ON_NODE, "one partition does not take more than all"),
        (OFFLOADED_COMPRESSION_BYTES < JUDGED_BYTES, "what is not judged inline may be judged with others"),
        (JUDGED_BYTES < DECOMPRESSED_BATCH_BYTES, "only very large batches are judged alone"),
        (WAITING_APPEND_BYTES >= DECOMPRESSED_BATCH_BYTES, "the largest batch may wait"),
        (WAITING_PRODUCE_PER_CONNECTION <= TURN_REQUESTS, "a turn can fill the produce window"),
        (0 < LARGE_FRAME_POOL_FRACTION < 1, "the frame pool is a part of memory"),
        (WALKED_BATCHES_PER_CONNECTION >= PRODUCER_BATCHES_REMEMBERED, "a producer's first window is walked"),
        (WALKED_BYTES_PER_CONNECTION < WALKED_ON_NODE_BYTES, "one connection leaves others their share"),
        (ADMIN_CONNECTIONS < RESERVED_DESCRIPTORS, "admin connections fit the reserve"),
        (HELD_CONNECTIONS > ACCEPTS_PER_TURN, "one accept turn of a fast address can be held"),
        (ACCEPTS_PER_TURN < RESERVED_DESCRIPTORS, "one accept turn fits the reserve"),
    )
    return [sentence for holds, sentence in relations if not holds]
