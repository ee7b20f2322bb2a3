/* Many consumers, as real ones fetch: each in a fetch session over its partitions, one request in flight, which
 * names only the partitions whose offset has moved. Beside them a producer at a fixed rate, if the plan has one.
 *
 *     consumers_client PLAN
 *
 * The plan is written by consumers.py, whose docstring has its format. Without a producer the consumers read their
 * partitions from the start to the end and again, and what is told are the latencies of their requests. With
 * one they follow the end, and what is told is the time of each record from its request to its arrival. All of it is
 * one thread with epoll. A fetch that is refused, or that skips or repeats an offset, ends the run with code 1.
 */
#define _GNU_SOURCE
#include "client.h"
#include <sys/timerfd.h>

enum {
    PLAN_MAGIC = 0x66657463,
    CORRELATION_AT = 8,
    ENTRY_BYTES = 33,         /* of one partition in a FetchRequest v17 */
    REQUEST_MAX = 64 << 10,
    SENT_RING = 4096,         /* records of one partition that may be on their way */
    DRAIN_SECONDS = 20,
};

struct partition {
    int64_t index, next_offset;
    bool has_moved;
};

struct consumer {
    int fd;
    struct partition *partitions;
    size_t partition_count;
    uint8_t *buffer;
    size_t filled;
    uint32_t session_id, epoch, correlation;
    int64_t asked_ns;
    bool is_waiting;
};

struct produced {
    const uint8_t *frame;
    size_t size;
    int64_t records, next_offset;
    int64_t sent_ns[SENT_RING];
};

static struct {
    int64_t port, duration_ns, max_bytes, end_offset, per_second;
    size_t consumer_count, partition_count, buffer_bytes, head_bytes, session_at, partition_max_bytes;
    const uint8_t *head, *topic_id;
} plan;

static struct consumer *consumers;
static struct produced *produced;
static struct consumer producer;      /* its socket and its answers */
static int epoll_fd, timer_fd;
static bool is_ending;
static int64_t now_ns, moved_bytes, answers, sent, acknowledged, due_ns;

static void read_plan(const char *path)
{
    open_plan(path, PLAN_MAGIC);
    plan.port = plan_int();
    plan.duration_ns = plan_int();
    plan.max_bytes = plan_int();
    plan.end_offset = plan_int();
    plan.per_second = plan_int();
    plan.buffer_bytes = (size_t)plan_int();
    plan.partition_max_bytes = (size_t)plan_int();
    plan.session_at = (size_t)plan_int();
    plan.head_bytes = (size_t)plan_int();
    plan.head = plan_bytes(plan.head_bytes);
    plan.topic_id = plan_bytes(16);
    plan.partition_count = (size_t)plan_int();
    plan.consumer_count = (size_t)plan_int();
    consumers = calloc(plan.consumer_count, sizeof *consumers);
    for (size_t index = 0; index < plan.partition_count; index++) {
        struct consumer *consumer = &consumers[index % plan.consumer_count];
        size_t size = (consumer->partition_count + 1) * sizeof *consumer->partitions;
        consumer->partitions = realloc(consumer->partitions, size);
        consumer->partitions[consumer->partition_count++] = (struct partition){.index = (int64_t)index, .has_moved = true};
    }
    if (plan.head_bytes + 32 + ENTRY_BYTES * (plan.partition_count / plan.consumer_count + 1) > REQUEST_MAX)
        die("too many partitions for one consumer");
    if (!plan.per_second) return;
    produced = calloc(plan.partition_count, sizeof *produced);
    for (size_t index = 0; index < plan.partition_count; index++) {
        produced[index].records = plan_int();
        produced[index].size = (size_t)plan_int();
        produced[index].frame = plan_bytes(produced[index].size);
    }
}

static void watch(int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void open_one(struct consumer *consumer)
{
    consumer->fd = connected(plan.port);
    consumer->buffer = malloc(plan.buffer_bytes);
    watch(consumer->fd, consumer);
}

/* A request is short: a socket that does not take it whole is one that the broker does not read. */
static void send_whole(int fd, const uint8_t *bytes, size_t size)
{
    if (send(fd, bytes, size, MSG_NOSIGNAL) != (ssize_t)size) die("send: %s", strerror(errno));
}

static uint8_t *put_varint(uint8_t *at, size_t value)
{
    for (; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_partition(uint8_t *at, const struct partition *partition)
{
    put32(at, (uint32_t)partition->index);
    put32(at + 4, (uint32_t)-1);                                   /* current leader epoch */
    put64(at + 8, (uint64_t)partition->next_offset);
    put32(at + 16, (uint32_t)-1);                                  /* last fetched epoch */
    put64(at + 20, (uint64_t)-1);                                  /* log start offset of a follower */
    put32(at + 28, (uint32_t)plan.partition_max_bytes);
    at[32] = 0;                                                    /* tags */
    return at + ENTRY_BYTES;
}

/* FetchRequest v17: what the plan gives up to the session's epoch, then the partitions that have moved. */
static void ask(struct consumer *consumer)
{
    static uint8_t request[REQUEST_MAX];
    size_t moved = 0;
    for (size_t index = 0; index < consumer->partition_count; index++) moved += consumer->partitions[index].has_moved;
    memcpy(request, plan.head, plan.head_bytes);
    put32(request + CORRELATION_AT, ++consumer->correlation);
    put32(request + plan.session_at, consumer->session_id);
    put32(request + plan.session_at + 4, consumer->epoch++);
    uint8_t *at = request + plan.head_bytes;
    *at++ = moved ? 2 : 1;                                         /* topics */
    if (moved) {
        memcpy(at, plan.topic_id, 16);
        at = put_varint(at + 16, moved + 1);
        for (size_t index = 0; index < consumer->partition_count; index++) {
            if (!consumer->partitions[index].has_moved) continue;
            consumer->partitions[index].has_moved = false;
            at = put_partition(at, &consumer->partitions[index]);
        }
        *at++ = 0;                                                 /* tags of the topic */
    }
    *at++ = 1;                                                     /* forgotten topics: none */
    *at++ = 1;                                                     /* rack: none */
    *at++ = 0;                                                     /* tags */
    put32(request, (uint32_t)(at - request - 4));
    consumer->asked_ns = now_ns;
    consumer->is_waiting = true;
    send_whole(consumer->fd, request, (size_t)(at - request));
}

/* A broker remembers a thousand sessions, and for two minutes gives the place of one that was left to nobody. */
static void close_session(struct consumer *consumer)
{
    for (size_t index = 0; index < consumer->partition_count; index++) consumer->partitions[index].has_moved = false;
    consumer->epoch = (uint32_t)-1;
    ask(consumer);
}

static struct partition *partition_of(struct consumer *consumer, int64_t index)
{
    size_t place = (size_t)index / plan.consumer_count;
    if (place >= consumer->partition_count || consumer->partitions[place].index != index)
        die("partition %" PRId64 " was not asked for", index);
    return &consumer->partitions[place];
}

static void take_batches(struct partition *partition, struct reader *records)
{
    while (records->end - records->at >= 61) {
        const uint8_t *batch = records->at;
        int64_t base_offset = (int64_t)get64(batch), count = (int64_t)get32(batch + 23) + 1;
        size_t size = (size_t)get32(batch + 8) + 12;
        if ((size_t)(records->end - batch) < size) break;          /* the last one may be cut off */
        records->at += size;
        if (base_offset != partition->next_offset)
            die("partition %" PRId64 ": offset %" PRId64 " came where %" PRId64 " was due", partition->index, base_offset, partition->next_offset);
        for (int64_t offset = base_offset; produced && offset < base_offset + count; offset++)
            count_latency((uint64_t)(now_ns - produced[partition->index].sent_ns[offset % SENT_RING]));
        partition->next_offset += count;
        partition->has_moved = true;
        if (plan.end_offset && partition->next_offset >= plan.end_offset) {
            partition->next_offset = 0;
            break;
        }
    }
}

static void take_fetched(struct consumer *consumer, struct reader *reader)
{
    take(reader, 4);                                               /* throttle time */
    int16_t error = take16(reader);
    if (error) die("fetch was refused: error %d", error);
    consumer->session_id = take32(reader);
    if (!consumer->session_id && !is_ending) die("the broker has no place for another fetch session");
    for (uint32_t topics = take_varint(reader); topics > 1; topics--) {
        take(reader, 16);
        for (uint32_t partitions = take_varint(reader); partitions > 1; partitions--) {
            struct partition *partition = partition_of(consumer, (int64_t)take32(reader));
            if ((error = take16(reader))) die("fetch was refused for partition %" PRId64 ": error %d", partition->index, error);
            take(reader, 24);
            for (uint32_t aborted = take_varint(reader); aborted > 1; aborted--) {
                take(reader, 16);
                take_varint(reader);
            }
            take(reader, 4);
            uint32_t size = take_varint(reader);
            size -= size > 0;
            struct reader records = {reader->at, take(reader, size) + size};
            take_batches(partition, &records);
            if (take_varint(reader)) die("an answer has tags that nobody expects");
        }
        take_varint(reader);
    }
    if (!produced) count_latency((uint64_t)(now_ns - consumer->asked_ns));
    consumer->is_waiting = false;
    if (!is_ending) ask(consumer);
    else if (consumer->session_id) close_session(consumer);
}

static void take_acknowledged(struct reader *reader)
{
    take_varint(reader);
    take(reader, take_varint(reader) - 1);
    take_varint(reader);
    uint32_t partition = take32(reader);
    int16_t error = take16(reader);
    if (error) die("produce to partition %u was refused: error %d", partition, error);
    acknowledged++;
}

static void receive(struct consumer *consumer)
{
    ssize_t got = recv(consumer->fd, consumer->buffer + consumer->filled, plan.buffer_bytes - consumer->filled, 0);
    if (got == 0) die("the broker closed the connection");
    if (got < 0) {
        if (errno == EAGAIN || errno == EINTR) return;
        die("receive: %s", strerror(errno));
    }
    consumer->filled += (size_t)got;
    size_t position = 0;
    while (consumer->filled - position >= 4) {
        size_t size = get32(consumer->buffer + position);
        if (size + 4 > plan.buffer_bytes) die("an answer of %zu bytes is larger than it should be", size);
        if (consumer->filled - position - 4 < size) break;
        struct reader reader = {consumer->buffer + position + 4, consumer->buffer + position + 4 + size};
        position += 4 + size;
        uint32_t correlation = take32(&reader);
        take_varint(&reader);
        if (consumer == &producer) take_acknowledged(&reader);
        else if (correlation != consumer->correlation) die("an answer to request %u came where %u was due", correlation, consumer->correlation);
        else take_fetched(consumer, &reader);
        moved_bytes += consumer == &producer ? 0 : (int64_t)size;
        answers += consumer != &producer;
    }
    consumer->filled -= position;
    if (position && consumer->filled) memmove(consumer->buffer, consumer->buffer + position, consumer->filled);
}

/* Send what is due, to each partition in turn. */
static void produce(void)
{
    uint64_t expired;
    if (read(timer_fd, &expired, sizeof expired) < 0) return;
    while (due_ns <= now_ns && !is_ending) {
        struct produced *to = &produced[sent++ % (int64_t)plan.partition_count];
        now_ns = clock_ns();
        for (int64_t record = 0; record < to->records; record++) to->sent_ns[to->next_offset++ % SENT_RING] = now_ns;
        send_whole(producer.fd, to->frame, to->size);
        due_ns += 1000000000LL / plan.per_second;
    }
    struct itimerspec next = {.it_value = {due_ns / 1000000000LL, due_ns % 1000000000LL}};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &next, NULL);
}

static void start_producing(void)
{
    open_one(&producer);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    due_ns = clock_ns() + 1000000000LL;                            /* the sessions are made first */
    struct itimerspec first = {.it_value = {due_ns / 1000000000LL, due_ns % 1000000000LL}};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &first, NULL);
    watch(timer_fd, &timer_fd);
}

static bool has_unanswered(void)
{
    if (acknowledged < sent) return true;
    for (size_t index = 0; index < plan.consumer_count; index++)
        if (consumers[index].is_waiting) return true;
    return false;
}

int main(int count, char **arguments)
{
    if (count != 2) die("usage: consumers_client PLAN");
    read_plan(arguments[1]);
    epoll_fd = epoll_create1(0);
    for (size_t index = 0; index < plan.consumer_count; index++) open_one(&consumers[index]);
    if (plan.per_second) start_producing();
    int64_t began = now_ns = clock_ns(), deadline = began + plan.duration_ns;
    for (size_t index = 0; index < plan.consumer_count; index++) ask(&consumers[index]);
    while (!is_ending || has_unanswered()) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll_fd, events, 256, 100);
        now_ns = clock_ns();
        if (now_ns >= deadline || moved_bytes >= plan.max_bytes) is_ending = true;
        for (int index = 0; index < ready; index++) {
            if (events[index].data.ptr == &timer_fd) produce();
            else receive(events[index].data.ptr);
        }
        if (now_ns > deadline + DRAIN_SECONDS * 1000000000LL) die("requests were not answered in %d s", DRAIN_SECONDS);
    }
    print_outcome(plan.per_second ? acknowledged : answers, moved_bytes, clock_ns() - began);
    return 0;
}
