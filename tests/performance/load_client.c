/* A client that costs less than any broker: it moves frames that were built before, as a plan says.
 *
 *     load_client PLAN
 *
 * The plan is written by load_plan.py, whose docstring has its format. One thread serves all connections with
 * epoll. A request is two pieces: a head of its own, in which a few numbers are patched (the correlation id, a
 * producer's sequence with the checksum that covers it, a fetch offset, the epoch of a fetch session), and a
 * tail that all requests share and nobody touches. The checksum needs no pass over the batch: CRC-32C is linear,
 * so the plan says what each bit of the sequence does to it.
 *
 * Every answer is checked: its correlation id, its error codes, and of a fetch that it has records and that they
 * begin where it asked. The first answer that is wrong ends the run with a line on standard error and code 1.
 * At the end one line of JSON says how much was done, how long it took and what this process itself has cost.
 */
#define _GNU_SOURCE
#include "client.h"

enum {
    PLAN_MAGIC = 0x6c6f6164,
    PRODUCE = 0,
    FETCH = 1,
    API_KEY_AT = 4,
    CORRELATION_AT = 8,
    SEQUENCE_BITS = 32,
    WINDOW_MAX = 64,          /* requests in flight on one connection */
    HEAD_MAX = 512,           /* bytes of a request that are its own */
    PEEK_BYTES = 512,         /* of a large answer only these are looked at */
    RECEIVE_BYTES = 256 << 10,
    DRAIN_SECONDS = 20,
};

/* One frame of the plan, which is sent again and again. Positions are -1 where it has no such field. */
struct frame {
    const uint8_t *head, *tail;
    size_t head_bytes, tail_bytes;
    int64_t batch_bytes, records;
    int64_t sequence_at, crc_at, sequence;
    uint32_t crc, crc_of_bit[SEQUENCE_BITS];
    int64_t offset_at, offset, step, end;
    int64_t session_at, session_id, session_epoch;
};

/* A request on its way or waiting for its answer. */
struct request {
    struct frame *frame;
    uint8_t head[HEAD_MAX];
    size_t sent;
    int64_t at_ns, offset;
    uint32_t correlation;
};

struct connection {
    int fd;
    int64_t port;
    bool wants_write;
    struct frame *frames;
    size_t frame_count, turn;
    struct request ring[WINDOW_MAX];
    uint64_t made, written, answered;   /* requests: built, handed to the kernel whole, answered */
    size_t window;
    uint8_t buffer[RECEIVE_BYTES];
    size_t filled;
    size_t skip;                        /* bytes of a large answer that are still to come */
};

static struct {
    int64_t duration_ns, max_bytes, check_offsets;
    size_t connection_count;
} plan;

static struct connection *connections;
static int epoll_fd;
static bool is_ending;
static int64_t now_ns, moved_bytes, answers;

/* ---- the plan ---- */

static void read_frame(struct frame *frame, const uint8_t *tails, size_t tails_bytes)
{
    frame->head_bytes = (size_t)plan_int();
    size_t tail_at = (size_t)plan_int();
    frame->tail_bytes = (size_t)plan_int();
    frame->batch_bytes = plan_int();
    frame->records = plan_int();
    frame->sequence_at = plan_int();
    frame->crc_at = plan_int();
    frame->offset_at = plan_int();
    frame->step = plan_int();
    frame->end = plan_int();
    frame->session_at = plan_int();
    for (int bit = 0; bit < SEQUENCE_BITS; bit++) frame->crc_of_bit[bit] = (uint32_t)plan_int();
    if (frame->head_bytes > HEAD_MAX || tail_at + frame->tail_bytes > tails_bytes) die("a frame of the plan is too long");
    frame->head = plan_bytes(frame->head_bytes);
    frame->tail = tails + tail_at;
    if (frame->crc_at >= 0) frame->crc = get32(frame->head + frame->crc_at);
}

static void read_plan(const char *path)
{
    open_plan(path, PLAN_MAGIC);
    plan.duration_ns = plan_int();
    plan.max_bytes = plan_int();
    plan.check_offsets = plan_int();
    size_t window = (size_t)plan_int();
    if (window < 1 || window > WINDOW_MAX) die("%zu requests in flight: 1 to %d are possible", window, WINDOW_MAX);
    plan.connection_count = (size_t)plan_int();
    size_t tails_bytes = (size_t)plan_int();
    const uint8_t *tails = plan_bytes(tails_bytes);
    connections = calloc(plan.connection_count, sizeof *connections);
    for (size_t index = 0; index < plan.connection_count; index++) {
        struct connection *connection = &connections[index];
        connection->port = plan_int();
        connection->frame_count = (size_t)plan_int();
        connection->frames = calloc(connection->frame_count, sizeof *connection->frames);
        connection->window = window;
        for (size_t number = 0; number < connection->frame_count; number++) {
            read_frame(&connection->frames[number], tails, tails_bytes);
            /* The next request of a session may leave when the last one is answered. */
            if (connection->frames[number].session_at >= 0) connection->window = 1;
        }
    }
}

/* ---- sending ---- */

static uint32_t crc_with_sequence(const struct frame *frame)
{
    uint32_t crc = frame->crc;
    for (uint32_t bits = (uint32_t)frame->sequence; bits; bits &= bits - 1) crc ^= frame->crc_of_bit[__builtin_ctz(bits)];
    return crc;
}

static void make_request(struct connection *connection)
{
    struct frame *frame = &connection->frames[connection->turn];
    if (++connection->turn == connection->frame_count) connection->turn = 0;
    struct request *request = &connection->ring[connection->made % WINDOW_MAX];
    request->frame = frame;
    request->sent = 0;
    request->at_ns = now_ns;
    request->correlation = (uint32_t)connection->made++ & 0x7fffffff;
    memcpy(request->head, frame->head, frame->head_bytes);
    put32(request->head + CORRELATION_AT, request->correlation);
    if (frame->sequence_at >= 0) {
        put32(request->head + frame->sequence_at, (uint32_t)frame->sequence);
        put32(request->head + frame->crc_at, crc_with_sequence(frame));
        frame->sequence = (frame->sequence + frame->records) & 0x7fffffff;
    }
    if (frame->offset_at >= 0) {
        request->offset = frame->offset;
        put64(request->head + frame->offset_at, (uint64_t)frame->offset);
        frame->offset += frame->step;
        if (frame->offset > frame->end) frame->offset = 0;
    }
    if (frame->session_at >= 0) {
        put32(request->head + frame->session_at, (uint32_t)frame->session_id);
        put32(request->head + frame->session_at + 4, (uint32_t)frame->session_epoch++);
    }
}

static void watch_writing(struct connection *connection, bool wanted)
{
    if (connection->wants_write == wanted) return;
    connection->wants_write = wanted;
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = connection};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

/* Hand the kernel what it takes of the requests that are made; true when nothing is left. */
static bool write_requests(struct connection *connection)
{
    while (connection->written < connection->made) {
        struct iovec pieces[2 * WINDOW_MAX];
        int count = 0;
        for (uint64_t number = connection->written; number < connection->made; number++) {
            struct request *request = &connection->ring[number % WINDOW_MAX];
            struct frame *frame = request->frame;
            size_t sent = request->sent;
            if (sent < frame->head_bytes) {
                pieces[count++] = (struct iovec){request->head + sent, frame->head_bytes - sent};
                sent = frame->head_bytes;
            }
            sent -= frame->head_bytes;
            if (sent < frame->tail_bytes) pieces[count++] = (struct iovec){(void *)(frame->tail + sent), frame->tail_bytes - sent};
        }
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
        ssize_t gone = sendmsg(connection->fd, &message, MSG_NOSIGNAL);
        if (gone < 0) {
            if (errno == EAGAIN || errno == EINTR) return false;
            die("send: %s", strerror(errno));
        }
        while (gone > 0) {
            struct request *request = &connection->ring[connection->written % WINDOW_MAX];
            size_t left = request->frame->head_bytes + request->frame->tail_bytes - request->sent;
            size_t part = (size_t)gone < left ? (size_t)gone : left;
            request->sent += part;
            gone -= (ssize_t)part;
            if (part == left) connection->written++;
        }
    }
    return true;
}

static void fill_window(struct connection *connection)
{
    while (!is_ending && connection->made - connection->answered < connection->window) make_request(connection);
    watch_writing(connection, !write_requests(connection));
}

/* ---- answers ---- */

static void check_produce(struct reader *reader)
{
    take_varint(reader);                              /* topics */
    take(reader, take_varint(reader) - 1);            /* name */
    take_varint(reader);                              /* partitions */
    take(reader, 4);                                  /* index */
    int16_t error = take16(reader);
    if (error) die("produce was refused: error %d", error);
}

/* Shape of FetchResponse v17 up to the first batch. */
static void check_fetch(struct reader *reader, const struct request *request)
{
    struct frame *frame = request->frame;
    take(reader, 4);                                  /* throttle time */
    int16_t error = take16(reader);
    if (error) die("fetch was refused: error %d", error);
    uint32_t session_id = take32(reader);
    if (frame->session_at >= 0) frame->session_id = session_id;
    if (take_varint(reader) < 2) die("a fetch at offset %" PRId64 " brought nothing", request->offset);
    take(reader, 16);                                 /* topic id */
    take_varint(reader);                              /* partitions */
    take(reader, 4);                                  /* index */
    if ((error = take16(reader))) die("fetch was refused for its partition: error %d", error);
    take(reader, 24);                                 /* high watermark, last stable offset, log start offset */
    uint32_t aborted = take_varint(reader);
    for (; aborted > 1; aborted--) {
        take(reader, 16);
        take_varint(reader);
    }
    take(reader, 4);                                  /* preferred read replica */
    if (take_varint(reader) < 2) die("a fetch at offset %" PRId64 " brought no records", request->offset);
    int64_t base_offset = (int64_t)get64(take(reader, 8));
    if (plan.check_offsets && base_offset != request->offset)
        die("a fetch at offset %" PRId64 " begins at %" PRId64, request->offset, base_offset);
}

static void answer_begins(struct connection *connection, const uint8_t *bytes, size_t there, size_t size)
{
    if (connection->answered == connection->written) die("an answer came that nobody asked for");
    struct request *request = &connection->ring[connection->answered % WINDOW_MAX];
    struct reader reader = {bytes, bytes + there};
    uint32_t correlation = take32(&reader);
    if (correlation != request->correlation)
        die("an answer to request %u came where %u was expected", correlation, request->correlation);
    take_varint(&reader);                             /* tags of the header */
    bool is_produce = (request->head[API_KEY_AT] << 8 | request->head[API_KEY_AT + 1]) == PRODUCE;
    if (is_produce) check_produce(&reader);
    else check_fetch(&reader, request);
    moved_bytes += is_produce ? request->frame->batch_bytes : (int64_t)size;
}

static void answer_ends(struct connection *connection)
{
    struct request *request = &connection->ring[connection->answered++ % WINDOW_MAX];
    count_latency((uint64_t)(now_ns - request->at_ns));
    answers++;
}

static void take_answers(struct connection *connection)
{
    size_t position = 0;
    while (connection->filled - position >= 4) {
        const uint8_t *at = connection->buffer + position;
        size_t size = get32(at), there = connection->filled - position - 4;
        if (there >= size) {
            answer_begins(connection, at + 4, size, size);
            answer_ends(connection);
            position += 4 + size;
        } else if (size + 4 > RECEIVE_BYTES && there >= PEEK_BYTES) {
            /* What is still to come of a large answer is received and forgotten. */
            answer_begins(connection, at + 4, there, size);
            connection->skip = size - there;
            position = connection->filled;
        } else {
            break;
        }
    }
    connection->filled -= position;
    if (connection->filled && position) memmove(connection->buffer, connection->buffer + position, connection->filled);
}

static void receive(struct connection *connection)
{
    uint8_t *into = connection->skip ? connection->buffer : connection->buffer + connection->filled;
    size_t room = RECEIVE_BYTES - (connection->skip ? 0 : connection->filled);
    if (connection->skip && connection->skip < room) room = connection->skip;
    ssize_t got = recv(connection->fd, into, room, 0);
    if (got == 0) die("the broker closed the connection");
    if (got < 0) {
        if (errno == EAGAIN || errno == EINTR) return;
        die("receive: %s", strerror(errno));
    }
    if (!connection->skip) {
        connection->filled += (size_t)got;
        take_answers(connection);
    } else if ((connection->skip -= (size_t)got) == 0) {
        answer_ends(connection);
    }
}

/* ---- the run ---- */

static void open_connection(struct connection *connection)
{
    connection->fd = connected(connection->port);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event);
}

static bool has_unanswered(void)
{
    for (size_t index = 0; index < plan.connection_count; index++)
        if (connections[index].answered != connections[index].made) return true;
    return false;
}

static void run(void)
{
    int64_t deadline = clock_ns() + plan.duration_ns;
    now_ns = clock_ns();
    for (size_t index = 0; index < plan.connection_count; index++) fill_window(&connections[index]);
    for (;;) {
        struct epoll_event events[256];
        int count = epoll_wait(epoll_fd, events, 256, 100);
        now_ns = clock_ns();
        if (now_ns >= deadline || moved_bytes >= plan.max_bytes) is_ending = true;
        for (int index = 0; index < count; index++) {
            struct connection *connection = events[index].data.ptr;
            if (events[index].events & ~(uint32_t)EPOLLOUT) receive(connection);
            fill_window(connection);
        }
        if (!is_ending) continue;
        if (!has_unanswered()) return;
        if (now_ns > deadline + DRAIN_SECONDS * 1000000000LL) die("requests were not answered in %d s", DRAIN_SECONDS);
    }
}

int main(int count, char **arguments)
{
    if (count != 2) die("usage: load_client PLAN");
    read_plan(arguments[1]);
    epoll_fd = epoll_create1(0);
    for (size_t index = 0; index < plan.connection_count; index++) open_connection(&connections[index]);
    int64_t began = clock_ns();
    run();
    print_outcome(answers, moved_bytes, clock_ns() - began);
    return 0;
}
