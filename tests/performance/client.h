/* What the C clients of the benchmarks share: numbers on the wire, the plan, latencies, the line at the end. */
#ifndef CLIENT_H
#define CLIENT_H
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static inline void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static inline int64_t clock_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

/* ---- numbers on the wire: big-endian ---- */

static inline void put32(uint8_t *at, uint32_t value) { value = htonl(value); memcpy(at, &value, 4); }
static inline void put64(uint8_t *at, uint64_t value) { value = __builtin_bswap64(value); memcpy(at, &value, 8); }
static inline uint32_t get32(const uint8_t *at) { uint32_t value; memcpy(&value, at, 4); return ntohl(value); }
static inline uint64_t get64(const uint8_t *at) { uint64_t value; memcpy(&value, at, 8); return __builtin_bswap64(value); }

struct reader { const uint8_t *at, *end; };

static inline const uint8_t *take(struct reader *reader, size_t bytes)
{
    const uint8_t *at = reader->at;
    if ((size_t)(reader->end - at) < bytes) die("an answer is shorter than it should be");
    reader->at += bytes;
    return at;
}

static inline int16_t take16(struct reader *reader) { const uint8_t *at = take(reader, 2); return (int16_t)(at[0] << 8 | at[1]); }
static inline uint32_t take32(struct reader *reader) { return get32(take(reader, 4)); }

static inline uint32_t take_varint(struct reader *reader)
{
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *take(reader, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    die("a number in an answer has no end");
    return 0;
}

/* ---- the plan ---- */

static const uint8_t *plan_at, *plan_end;

static inline int64_t plan_int(void)
{
    int64_t value;
    if (plan_end - plan_at < 8) die("the plan is too short");
    memcpy(&value, plan_at, 8);
    plan_at += 8;
    return value;
}

static inline void open_plan(const char *path, int64_t magic)
{
    struct stat status;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &status) < 0) die("%s: %s", path, strerror(errno));
    uint8_t *bytes = malloc((size_t)status.st_size);
    for (off_t at = 0; at < status.st_size;) {
        ssize_t got = read(fd, bytes + at, (size_t)(status.st_size - at));
        if (got <= 0) die("%s: %s", path, strerror(errno));
        at += got;
    }
    close(fd);
    plan_at = bytes;
    plan_end = bytes + status.st_size;
    if (plan_int() != magic) die("%s is no plan of this client", path);
}

static inline const uint8_t *plan_bytes(size_t size)
{
    const uint8_t *at = plan_at;
    if ((size_t)(plan_end - plan_at) < size) die("the plan is too short");
    plan_at += size;
    return at;
}

/* ---- connections ---- */

static inline int connected(int64_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("127.0.0.1:%" PRId64 ": %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* ---- latencies and the line at the end ---- */

/* Latencies in ns, 64 steps to each power of two: within 1.6 percent. */
static uint64_t histogram[64 * 64];

static uint64_t latencies;

static inline void count_latency(uint64_t ns)
{
    int power = ns < 128 ? 0 : 57 - __builtin_clzll(ns);
    size_t index = (size_t)(power * 64) + (ns >> power);
    histogram[index < 4095 ? index : 4095]++;
    latencies++;
}

static inline uint64_t bucket_ns(size_t index)
{
    size_t power = index < 128 ? 0 : index / 64 - 1;
    return (uint64_t)(index - power * 64) << power;
}

static inline double percentile_us(double share)
{
    uint64_t wanted = (uint64_t)((double)latencies * share), seen = 0;
    for (size_t index = 0; index < sizeof histogram / sizeof *histogram; index++)
        if ((seen += histogram[index]) > wanted) return (double)bucket_ns(index) / 1000;
    return 0;
}

static inline double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

static inline void print_outcome(int64_t requests, int64_t bytes, int64_t took_ns)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"requests\": %" PRId64 ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
           "\"latency_us\": {\"p50\": %.1f, \"p99\": %.1f}}\n",
           requests, bytes, (double)took_ns / 1e9, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
           percentile_us(0.5), percentile_us(0.99));
}

#endif
