/* Producers or consumers of librdkafka, each an instance of its own with a thread of its own, as fast as they can.
 *
 *     librdkafka_client LIBRARY ADDRESS
 *
 * The library is loaded by its path, so that the one in the wheel of confluent-kafka will do and no headers are
 * needed: what is used of its interface, which is stable, is declared here. Jobs come on standard input, see
 * genuine_programs.py. All settings are the library's own; a consumer commits nothing. An error ends it with code 1.
 */
#define _GNU_SOURCE
#include "client.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    CLIENTS_MAX = 64,
    PRODUCER = 0,
    CONSUMER = 1,
    ANY_PARTITION = -1,
    COPY = 2,                 /* the library takes a copy of the record */
    FROM_BEGINNING = -2,
    QUEUE_FULL = -184,
    AT_THE_END = -191,
    PATIENCE_MS = 60000,
};

typedef struct rd_kafka rd_kafka_t;
typedef struct rd_kafka_conf rd_kafka_conf_t;
typedef struct rd_kafka_topic rd_kafka_topic_t;
typedef struct rd_kafka_list rd_kafka_list_t;
typedef struct { char *topic; int32_t partition; int64_t offset; } rd_kafka_place_t;
typedef struct {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *more;
} rd_kafka_message_t;

static struct {
    rd_kafka_conf_t *(*conf_new)(void);
    int (*conf_set)(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
    void (*conf_set_dr_msg_cb)(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
    rd_kafka_t *(*new)(int, rd_kafka_conf_t *, char *, size_t);
    void (*destroy)(rd_kafka_t *);
    rd_kafka_topic_t *(*topic_new)(rd_kafka_t *, const char *, void *);
    void (*topic_destroy)(rd_kafka_topic_t *);
    int (*produce)(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
    int (*poll)(rd_kafka_t *, int);
    int (*flush)(rd_kafka_t *, int);
    int (*last_error)(void);
    const char *(*err2str)(int);
    rd_kafka_list_t *(*topic_partition_list_new)(int);
    rd_kafka_place_t *(*topic_partition_list_add)(rd_kafka_list_t *, const char *, int32_t);
    void (*topic_partition_list_destroy)(rd_kafka_list_t *);
    int (*assign)(rd_kafka_t *, const rd_kafka_list_t *);
    rd_kafka_message_t *(*consumer_poll)(rd_kafka_t *, int);
    int (*consumer_close)(rd_kafka_t *);
    void (*message_destroy)(rd_kafka_message_t *);
} rd;

static struct { int kind; char topic[250]; int clients; int64_t record_bytes, partitions, records; double warm, seconds; } job;
static const char *address;
static pthread_barrier_t is_ready, may_begin, is_done;
static atomic_bool is_over;
static atomic_llong done;     /* records: acknowledged, or read */

static void load_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library) die("%s", dlerror());
    const char *names[] = {"conf_new", "conf_set", "conf_set_dr_msg_cb", "new", "destroy", "topic_new",
                           "topic_destroy", "produce", "poll", "flush", "last_error", "err2str",
                           "topic_partition_list_new", "topic_partition_list_add", "topic_partition_list_destroy", "assign",
                           "consumer_poll", "consumer_close", "message_destroy"};
    _Static_assert(sizeof names / sizeof *names == sizeof rd / sizeof(void *), "a name for each function");
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        char name[64];
        snprintf(name, sizeof name, "rd_kafka_%s", names[index]);
        void *found = dlsym(library, name);
        if (!found) die("%s", dlerror());
        memcpy((char *)&rd + index * sizeof found, &found, sizeof found);
    }
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char error[256];
    if (rd.conf_set(conf, name, value, error, sizeof error)) die("%s", error);
}

static rd_kafka_t *started(int kind, rd_kafka_conf_t *conf)
{
    char error[256];
    set(conf, "bootstrap.servers", address);
    rd_kafka_t *handle = rd.new(kind, conf, error, sizeof error);
    if (!handle) die("%s", error);
    return handle;
}

static void delivered(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque)
{
    (void)handle;
    (void)opaque;
    if (message->err) die("a record was not taken: %s", rd.err2str(message->err));
    done++;
}

static void send_one(rd_kafka_t *handle, rd_kafka_topic_t *topic, uint8_t *payload)
{
    while (rd.produce(topic, ANY_PARTITION, COPY, payload, (size_t)job.record_bytes, NULL, 0, NULL)) {
        if (rd.last_error() != QUEUE_FULL) die("a record was not taken: %s", rd.err2str(rd.last_error()));
        rd.poll(handle, 10);
    }
}

static void *producer(void *unused)
{
    (void)unused;
    uint8_t *payload = malloc((size_t)job.record_bytes);
    memset(payload, 'x', (size_t)job.record_bytes);
    rd_kafka_conf_t *conf = rd.conf_new();
    rd.conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_t *handle = started(PRODUCER, conf);
    rd_kafka_topic_t *topic = rd.topic_new(handle, job.topic, NULL);
    send_one(handle, topic, payload);
    if (rd.flush(handle, PATIENCE_MS)) die("the first record was not acknowledged");
    pthread_barrier_wait(&is_ready);
    while (!is_over) {
        for (int number = 0; number < 100; number++) send_one(handle, topic, payload);
        rd.poll(handle, 0);
    }
    if (rd.flush(handle, PATIENCE_MS)) die("not all records were acknowledged");
    rd.topic_destroy(topic);
    rd.destroy(handle);
    free(payload);
    return NULL;
}

static void *consumer(void *number)
{
    rd_kafka_conf_t *conf = rd.conf_new();
    set(conf, "group.id", "load");
    set(conf, "enable.auto.commit", "false");
    rd_kafka_t *handle = started(CONSUMER, conf);
    rd_kafka_list_t *places = rd.topic_partition_list_new(1);
    for (int64_t index = (intptr_t)number; index < job.partitions; index += job.clients)
        rd.topic_partition_list_add(places, job.topic, (int32_t)index)->offset = FROM_BEGINNING;
    pthread_barrier_wait(&is_ready);
    pthread_barrier_wait(&may_begin);
    int error = rd.assign(handle, places);
    if (error) die("%s", rd.err2str(error));
    while (done < job.records) {
        rd_kafka_message_t *message = rd.consumer_poll(handle, 100);
        if (!message) continue;
        if (message->err && message->err != AT_THE_END) die("%s", rd.err2str(message->err));
        done += !message->err;
        rd.message_destroy(message);
    }
    pthread_barrier_wait(&is_done);
    rd.topic_partition_list_destroy(places);
    rd.consumer_close(handle);
    rd.destroy(handle);
    return NULL;
}

/* Returns when the job may begin: its clock starts. */
static int64_t await_go(void)
{
    char line[8];
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(0);
    return clock_ns();
}

static void tell(int64_t records, int64_t began_ns)
{
    printf("{\"records\": %" PRId64 ", \"seconds\": %.6f}\n", records, (double)(clock_ns() - began_ns) / 1e9);
    fflush(stdout);
}

static void run_producers(void)
{
    usleep((useconds_t)(job.warm * 1e6));
    int64_t began_ns = await_go(), before = done;
    usleep((useconds_t)(job.seconds * 1e6));
    tell(done - before, began_ns);
    is_over = true;
}

static void run_consumers(void)
{
    int64_t began_ns = await_go();
    pthread_barrier_wait(&may_begin);
    pthread_barrier_wait(&is_done);
    tell(done, began_ns);
}

static void run(void)
{
    pthread_t threads[CLIENTS_MAX];
    pthread_barrier_t *barriers[] = {&is_ready, &may_begin, &is_done};
    for (int number = 0; number < 3; number++) pthread_barrier_init(barriers[number], NULL, (unsigned)job.clients + 1);
    is_over = false;
    done = 0;
    for (intptr_t index = 0; index < job.clients; index++)
        if (pthread_create(&threads[index], NULL, job.kind == PRODUCER ? producer : consumer, (void *)index))
            die("no thread for a client");
    pthread_barrier_wait(&is_ready);
    if (job.kind == PRODUCER) run_producers();
    else run_consumers();
    for (int index = 0; index < job.clients; index++) pthread_join(threads[index], NULL);
    for (int number = 0; number < 3; number++) pthread_barrier_destroy(barriers[number]);
    printf("done\n");
    fflush(stdout);
}

int main(int count, char **words)
{
    char line[1024];
    if (count != 3) die("librdkafka_client LIBRARY ADDRESS");
    load_library(words[1]);
    address = words[2];
    while (fgets(line, sizeof line, stdin)) {
        memset(&job, 0, sizeof job);
        if (sscanf(line, "produce %249s %d %" SCNd64 " %lf %lf", job.topic, &job.clients, &job.record_bytes, &job.warm, &job.seconds) == 5)
            job.kind = PRODUCER;
        else if (sscanf(line, "consume %249s %d %" SCNd64 " %" SCNd64, job.topic, &job.clients, &job.partitions, &job.records) == 4)
            job.kind = CONSUMER;
        else
            die("no job: %s", line);
        if (job.clients < 1 || job.clients > CLIENTS_MAX) die("%d clients", job.clients);
        run();
    }
    return 0;
}
