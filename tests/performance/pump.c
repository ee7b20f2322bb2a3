/* The floor under any broker: it receives requests, writes them to a file and answers, and nothing else.
 *
 *     pump FILE PRODUCE_ANSWER FETCH_HEAD FETCH_TAIL FETCH_BYTES
 *
 * The answers are whole frames in hex; only their correlation id (bytes 4 to 8) is patched. All complete requests of
 * one read share one write and one send. A Fetch is answered with FETCH_HEAD, FETCH_BYTES of the file by sendfile
 * and FETCH_TAIL. Nothing is checked, no file is rolled, there is no second connection's data in the way: each
 * connection writes a file of its own, FILE.0, FILE.1 and so on. The port is printed on the first line of standard
 * output; the program ends when its standard input does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 2 << 20,
    ANSWER_MAX = 4096,
    FETCHES_MAX = 64,
    API_KEY_AT = 4,
    CORRELATION_AT = 8,
    FETCH = 1,
    FETCH_FILE_BYTES = 64 << 20,
};

struct piece { uint8_t bytes[ANSWER_MAX]; size_t size; };

struct connection {
    int fd, file;
    off_t written;
    uint8_t *buffer;
    size_t filled;
    uint8_t answers[64 << 10];
    size_t answers_bytes;
    /* fetches that wait for their answer, and how far the first of them has been answered */
    uint32_t fetches[FETCHES_MAX];
    unsigned asked, done;
    size_t gone;
    off_t fetch_at;
    bool wants_write;
};

static struct piece produce_answer, fetch_head, fetch_tail;
static size_t fetch_bytes;
static const char *file_name;
static int epoll_fd, fetch_file = -1, connection_count;

static void fail(const char *what) { perror(what); exit(1); }

static void from_hex(struct piece *piece, const char *hex)
{
    unsigned byte;
    for (; *hex && piece->size < ANSWER_MAX && sscanf(hex, "%2x", &byte) == 1; hex += 2) piece->bytes[piece->size++] = (uint8_t)byte;
}

static int new_file(const char *suffix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", file_name, suffix);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0) fail(path);
    return file;
}

static void fill_fetch_file(void)
{
    static uint8_t block[1 << 20];
    fetch_file = new_file("fetch");
    memset(block, 'x', sizeof block);
    for (size_t at = 0; at < FETCH_FILE_BYTES + fetch_bytes; at += sizeof block)
        if (write(fetch_file, block, sizeof block) < 0) fail("write");
}

static void watch(struct connection *connection, bool wants_write)
{
    if (connection->wants_write == wants_write) return;
    connection->wants_write = wants_write;
    struct epoll_event event = {.events = wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = connection};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

/* Move the first fetch's answer on; false when the socket is full. */
static bool send_fetch(struct connection *connection)
{
    size_t head = fetch_head.size, total = head + fetch_bytes + fetch_tail.size;
    memcpy(fetch_head.bytes + CORRELATION_AT - 4, &connection->fetches[connection->done % FETCHES_MAX], 4);
    while (connection->gone < total) {
        ssize_t sent;
        if (connection->gone < head)
            sent = send(connection->fd, fetch_head.bytes + connection->gone, head - connection->gone, MSG_NOSIGNAL | MSG_MORE);
        else if (connection->gone < head + fetch_bytes) {
            off_t from = connection->fetch_at + (off_t)(connection->gone - head);
            sent = sendfile(connection->fd, fetch_file, &from, head + fetch_bytes - connection->gone);
        } else
            sent = send(connection->fd, fetch_tail.bytes + (connection->gone - head - fetch_bytes), total - connection->gone, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN) return false;
            fail("send");
        }
        connection->gone += (size_t)sent;
    }
    connection->gone = 0;
    connection->done++;
    connection->fetch_at = (connection->fetch_at + (off_t)fetch_bytes) % FETCH_FILE_BYTES;
    return true;
}

static void send_answers(struct connection *connection)
{
    if (connection->answers_bytes) {
        /* They are short: a socket that does not take them belongs to a client that reads nothing. */
        if (send(connection->fd, connection->answers, connection->answers_bytes, MSG_NOSIGNAL) != (ssize_t)connection->answers_bytes)
            fail("send");
        connection->answers_bytes = 0;
    }
    while (connection->done != connection->asked)
        if (!send_fetch(connection)) {
            watch(connection, true);
            return;
        }
    watch(connection, false);
}

static void answer_produce(struct connection *connection, const uint8_t *correlation)
{
    uint8_t *at = connection->answers + connection->answers_bytes;
    if (connection->answers_bytes + produce_answer.size > sizeof connection->answers) fail("too many answers");
    memcpy(at, produce_answer.bytes, produce_answer.size);
    memcpy(at + 4, correlation, 4);
    connection->answers_bytes += produce_answer.size;
}

static void take_requests(struct connection *connection)
{
    size_t position = 0;
    bool has_records = false;
    while (connection->filled - position >= 12) {
        const uint8_t *at = connection->buffer + position;
        uint32_t size;
        memcpy(&size, at, 4);
        size = ntohl(size);
        if (connection->filled - position - 4 < size) break;
        if ((at[API_KEY_AT] << 8 | at[API_KEY_AT + 1]) == FETCH)
            memcpy(&connection->fetches[connection->asked++ % FETCHES_MAX], at + CORRELATION_AT, 4);
        else {
            answer_produce(connection, at + CORRELATION_AT);
            has_records = true;
        }
        position += 4 + size;
    }
    if (!position) return;
    if (has_records) {
        if (pwrite(connection->file, connection->buffer, position, connection->written) != (ssize_t)position) fail("pwrite");
        connection->written += (off_t)position;
    }
    send_answers(connection);
    connection->filled -= position;
    memmove(connection->buffer, connection->buffer + position, connection->filled);
}

static void receive(struct connection *connection)
{
    size_t room = BUFFER_BYTES - connection->filled;
    ssize_t got = recv(connection->fd, connection->buffer + connection->filled, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        close(connection->fd);
        close(connection->file);
        free(connection->buffer);
        free(connection);
        return;
    }
    connection->filled += (size_t)got;
    take_requests(connection);
}

static void accept_one(int listener)
{
    int one = 1;
    char suffix[16];
    struct connection *connection = calloc(1, sizeof *connection);
    connection->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (connection->fd < 0) fail("accept");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    snprintf(suffix, sizeof suffix, "%d", connection_count++);
    connection->file = new_file(suffix);
    connection->buffer = malloc(BUFFER_BYTES);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event);
}

int main(int count, char **arguments)
{
    if (count != 6) {
        fprintf(stderr, "usage: pump FILE PRODUCE_ANSWER FETCH_HEAD FETCH_TAIL FETCH_BYTES\n");
        return 2;
    }
    file_name = arguments[1];
    from_hex(&produce_answer, arguments[2]);
    from_hex(&fetch_head, arguments[3]);
    from_hex(&fetch_tail, arguments[4]);
    fetch_bytes = (size_t)atoll(arguments[5]);
    if (fetch_bytes) fill_fetch_file();
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 128) < 0) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    epoll_fd = epoll_create1(0);
    struct epoll_event of_listener = {.events = EPOLLIN, .data.ptr = &epoll_fd};
    struct epoll_event of_input = {.events = EPOLLIN, .data.ptr = &file_name};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &of_listener);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, 0, &of_input);
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(epoll_fd, events, 64, -1);
        for (int index = 0; index < ready; index++) {
            void *what = events[index].data.ptr;
            if (what == &file_name) return 0;
            if (what == &epoll_fd) accept_one(listener);
            else if (events[index].events & ~(uint32_t)EPOLLOUT) receive(what);
            else send_answers(what);
        }
    }
}
