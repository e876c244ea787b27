/* Calls every function with wrong arguments: null, closed file descriptors, wrong sizes and numbers. A test
 * compares the names here with the header. */
#include "check.h"
#include <fcntl.h>
#include <fullbore-observe.h>
#include <limits.h>
#include <unistd.h>

static fullbore_error error;
static int fds[2];
static int closed;

/* Checks that the call fails with this code, in the result and in the error, with a message. */
#define FAILS(wanted_code, call)                             \
    do {                                                     \
        memset(&error, 0, sizeof error);                     \
        IS(wanted_code, call);                               \
        IS(wanted_code, error.code);                         \
        CHECK(error.cause == FULLBORE_CAUSE_ARGUMENT);       \
        CHECK(error.message[0] != '\0' && error.sink == -1); \
    } while (0)

static void cancels(void) {
    fullbore_cancel *cancel;
    FAILS(-EINVAL, fullbore_cancel_new(NULL, &error));
    IS(-EINVAL, fullbore_cancel_new(NULL, NULL));
    IS(-EINVAL, fullbore_cancel_now(NULL));
    IS(-EINVAL, fullbore_cancel_is_cancelled(NULL));
    fullbore_cancel_free(NULL);
    IS(0, fullbore_cancel_new(&cancel, NULL));
    IS(0, fullbore_cancel_is_cancelled(cancel));
    IS(0, fullbore_cancel_now(cancel));
    IS(1, fullbore_cancel_is_cancelled(cancel));
    fullbore_cancel_free(cancel);
    CHECK(fullbore_deadline_in(INT64_MIN) == 1 && fullbore_deadline_in(INT64_MAX) == INT64_MAX);
    CHECK(fullbore_version() && strlen(fullbore_version()) > 0);
}

static void pipes(void) {
    int null = open("/dev/null", O_RDWR);
    FAILS(-EINVAL, fullbore_pipe(NULL, 0, &error));
    IS(-EINVAL, fullbore_pipe(NULL, 0, NULL));
    int bad[] = {-1, -2, INT_MIN, INT_MAX, closed};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(-EBADF, fullbore_pipe_capacity(bad[i], &error));
        FAILS(-EBADF, fullbore_pipe_queued(bad[i], &error));
        FAILS(-EBADF, fullbore_pipe_grow(bad[i], 4096, &error));
        FAILS(-EBADF, fullbore_copy(bad[i], null, &error));
        FAILS(-EBADF, fullbore_copy(null, bad[i], &error));
    }
    FAILS(-EINVAL, fullbore_pipe_capacity(null, &error));
    FAILS(-EINVAL, fullbore_pipe_queued(null, &error));
    FAILS(-EINVAL, fullbore_pipe_grow(null, 4096, &error));
    CHECK(fullbore_pipe_grow(fds[1], 0, NULL) > 0);
    FAILS(-EINVAL, fullbore_copy(fds[0], fds[1], &error));
    close(null);
}

static void producers(void) {
    fullbore_producer *producer, *made;
    void *memory;
    const void *unsent;
    size_t len;
    char byte = 0;
    FAILS(-EINVAL, fullbore_producer_new(fds[1], NULL, NULL, &error));
    producer = (void *)&byte;
    FAILS(-EBADF, fullbore_producer_new(closed, NULL, &producer, &error));
    CHECK(producer == NULL);
    FAILS(-EBADF, fullbore_producer_new(-1, NULL, &producer, &error));
    IS(-EBADF, fullbore_producer_new(fds[0], NULL, &producer, NULL));

    fullbore_producer_options options = {.size = sizeof options};
    size_t sizes[] = {0, 1, sizeof options - 1, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        options.size = sizes[i];
        FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    }
    /* Fields of a later header, after the options known to this one. */
    struct {
        fullbore_producer_options known;
        uint64_t unknown;
    } later = {.known = {.size = sizeof later}};
    IS(0, fullbore_producer_new(fds[1], &later.known, &producer, NULL));
    fullbore_producer_free(producer);
    later.unknown = 1;
    FAILS(-EINVAL, fullbore_producer_new(fds[1], &later.known, &producer, &error));
    int32_t ways[] = {-1, FULLBORE_WAY_REPEAT, FULLBORE_WAY_OTHER, INT32_MAX};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        options = (fullbore_producer_options){.size = sizeof options, .way = ways[i]};
        FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    }
    int32_t waits[] = {-1, 4, INT32_MIN};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        options = (fullbore_producer_options){.size = sizeof options, .wait = waits[i]};
        FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    }
    options = (fullbore_producer_options){.size = sizeof options, .flags = 1u << 31};
    FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    options = (fullbore_producer_options){.size = sizeof options, .reserved = 1};
    FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    options = (fullbore_producer_options){.size = sizeof options, .deadline = -1};
    FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    options = (fullbore_producer_options){.size = sizeof options, .chunk = SIZE_MAX};
    FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    options = (fullbore_producer_options){.size = sizeof options, .way = FULLBORE_WAY_RECYCLE, .memory = 1};
    FAILS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, &error));
    int null = open("/dev/null", O_WRONLY);
    options = (fullbore_producer_options){.size = sizeof options, .way = FULLBORE_WAY_FRESH};
    FAILS(-EINVAL, fullbore_producer_new(null, &options, &producer, &error));
    close(null);

    FAILS(-EINVAL, fullbore_producer_write(NULL, &byte, 1, &error));
    FAILS(-EINVAL, fullbore_producer_reserve(NULL, 1, &memory, &error));
    FAILS(-EINVAL, fullbore_producer_commit(NULL, 0, &error));
    FAILS(-EINVAL, fullbore_producer_flush(NULL, &error));
    FAILS(-EINVAL, fullbore_producer_finish(NULL, &error));
    FAILS(-EINVAL, fullbore_producer_unsent(NULL, &unsent, &len, &error));
    FAILS(-EINVAL, fullbore_producer_set_deadline(NULL, 0, &error));
    IS(-EINVAL, fullbore_producer_sent(NULL));
    IS(-EINVAL, fullbore_producer_way(NULL));
    IS(-EINVAL, fullbore_producer_chunk(NULL));
    fullbore_producer_free(NULL);

    IS(0, fullbore_producer_new(fds[1], NULL, &made, NULL));
    FAILS(-EINVAL, fullbore_producer_write(made, NULL, 1, &error));
    FAILS(-EINVAL, fullbore_producer_write(made, &byte, SIZE_MAX, &error));
    IS(0, fullbore_producer_write(made, NULL, 0, NULL));
    FAILS(-EINVAL, fullbore_producer_reserve(made, 1, NULL, &error));
    FAILS(-EINVAL, fullbore_producer_reserve(made, SIZE_MAX, &memory, &error));
    FAILS(-EINVAL, fullbore_producer_commit(made, 1, &error));
    IS(0, fullbore_producer_reserve(made, 10, &memory, NULL));
    FAILS(-EINVAL, fullbore_producer_commit(made, 11, &error));
    FAILS(-EINVAL, fullbore_producer_unsent(made, NULL, &len, &error));
    FAILS(-EINVAL, fullbore_producer_unsent(made, &unsent, NULL, &error));
    FAILS(-EINVAL, fullbore_producer_set_deadline(made, -1, &error));
    IS(0, fullbore_producer_finish(made, NULL));
    /* It has finished. */
    FAILS(-EINVAL, fullbore_producer_write(made, &byte, 1, &error));
    FAILS(-EINVAL, fullbore_producer_reserve(made, 1, &memory, &error));
    FAILS(-EINVAL, fullbore_producer_commit(made, 0, &error));
    FAILS(-EINVAL, fullbore_producer_flush(made, &error));
    FAILS(-EINVAL, fullbore_producer_finish(made, &error));
    FAILS(-EINVAL, fullbore_producer_set_deadline(made, 0, &error));
    IS(0, fullbore_producer_unsent(made, &unsent, &len, NULL));
    IS(0, fullbore_producer_sent(made));
    fullbore_producer_free(made);
}

static void repeats(void) {
    fullbore_repeat *repeat;
    FAILS(-EINVAL, fullbore_repeat_new(fds[1], "y\n", 2, NULL, NULL, &error));
    FAILS(-EINVAL, fullbore_repeat_new(fds[1], NULL, 2, NULL, &repeat, &error));
    FAILS(-EINVAL, fullbore_repeat_new(fds[1], "y\n", 0, NULL, &repeat, &error));
    FAILS(-EINVAL, fullbore_repeat_new(fds[1], "y\n", SIZE_MAX, NULL, &repeat, &error));
    FAILS(-EBADF, fullbore_repeat_new(closed, "y\n", 2, NULL, &repeat, &error));
    IS(-EBADF, fullbore_repeat_new(fds[0], "y\n", 2, NULL, &repeat, NULL));
    fullbore_producer_options options = {.size = sizeof options, .way = FULLBORE_WAY_COPY};
    FAILS(-EINVAL, fullbore_repeat_new(fds[1], "y\n", 2, &options, &repeat, &error));
    FAILS(-EINVAL, fullbore_repeat_send(NULL, 1, &error));
    FAILS(-EINVAL, fullbore_repeat_set_deadline(NULL, 0, &error));
    IS(-EINVAL, fullbore_repeat_sent(NULL));
    IS(-EINVAL, fullbore_repeat_way(NULL));
    fullbore_repeat_free(NULL);
    IS(0, fullbore_repeat_new(fds[1], "y\n", 2, NULL, &repeat, NULL));
    FAILS(-EINVAL, fullbore_repeat_set_deadline(repeat, -1, &error));
    IS(0, fullbore_repeat_send(repeat, 0, NULL));
    fullbore_repeat_free(repeat);
}

static void consumers(void) {
    fullbore_consumer *consumer;
    const void *memory;
    size_t len;
    char byte;
    FAILS(-EINVAL, fullbore_consumer_new(fds[0], NULL, NULL, &error));
    FAILS(-EBADF, fullbore_consumer_new(closed, NULL, &consumer, &error));
    fullbore_consumer_options options = {0};
    FAILS(-EINVAL, fullbore_consumer_new(fds[0], &options, &consumer, &error));
    options = (fullbore_consumer_options){.size = sizeof options, .buffer = SIZE_MAX};
    FAILS(-EINVAL, fullbore_consumer_new(fds[0], &options, &consumer, &error));
    options = (fullbore_consumer_options){.size = sizeof options, .flags = FULLBORE_FLAG_VISIBLE};
    FAILS(-EINVAL, fullbore_consumer_new(fds[0], &options, &consumer, &error));
    options = (fullbore_consumer_options){.size = sizeof options, .wait = 99};
    FAILS(-EINVAL, fullbore_consumer_new(fds[0], &options, &consumer, &error));
    FAILS(-EINVAL, fullbore_consumer_read(NULL, &byte, 1, &error));
    FAILS(-EINVAL, fullbore_consumer_fill(NULL, &memory, &len, &error));
    FAILS(-EINVAL, fullbore_consumer_consume(NULL, 0, &error));
    FAILS(-EINVAL, fullbore_consumer_discard(NULL, 0, &error));
    FAILS(-EINVAL, fullbore_consumer_set_deadline(NULL, 0, &error));
    IS(-EINVAL, fullbore_consumer_taken(NULL));
    IS(-EINVAL, fullbore_consumer_buffered(NULL));
    fullbore_consumer_free(NULL);

    options = (fullbore_consumer_options){.size = sizeof options, .flags = FULLBORE_FLAG_NONBLOCKING};
    IS(0, fullbore_consumer_new(fds[0], &options, &consumer, NULL));
    FAILS(-EINVAL, fullbore_consumer_read(consumer, NULL, 1, &error));
    FAILS(-EINVAL, fullbore_consumer_read(consumer, &byte, SIZE_MAX, &error));
    FAILS(-EINVAL, fullbore_consumer_fill(consumer, NULL, &len, &error));
    FAILS(-EINVAL, fullbore_consumer_fill(consumer, &memory, NULL, &error));
    FAILS(-EINVAL, fullbore_consumer_consume(consumer, 1, &error));
    FAILS(-EINVAL, fullbore_consumer_set_deadline(consumer, INT64_MIN, &error));
    IS(-EAGAIN, fullbore_consumer_read(consumer, &byte, 1, &error));
    CHECK(error.side == FULLBORE_SIDE_SOURCE && error.cause == FULLBORE_CAUSE_SYSTEM);
    fullbore_consumer_free(consumer);
}

static void transfers(void) {
    fullbore_transfer *transfer;
    fullbore_cancel *cancel;
    const void *memory;
    size_t len;
    uint64_t bytes;
    FAILS(-EINVAL, fullbore_transfer_new(fds[0], fds[1], NULL, NULL, &error));
    FAILS(-EBADF, fullbore_transfer_new(closed, fds[1], NULL, &transfer, &error));
    FAILS(-EBADF, fullbore_transfer_new(fds[0], closed, NULL, &transfer, &error));
    fullbore_transfer_options options = {.size = 8};
    FAILS(-EINVAL, fullbore_transfer_new(fds[0], fds[1], &options, &transfer, &error));
    options = (fullbore_transfer_options){.size = sizeof options, .guarantee = 2};
    FAILS(-EINVAL, fullbore_transfer_new(fds[0], fds[1], &options, &transfer, &error));
    options = (fullbore_transfer_options){.size = sizeof options, .wait = -1};
    FAILS(-EINVAL, fullbore_transfer_new(fds[0], fds[1], &options, &transfer, &error));
    options = (fullbore_transfer_options){.size = sizeof options, .flags = FULLBORE_FLAG_NO_HUGE_PAGES};
    FAILS(-EINVAL, fullbore_transfer_new(fds[0], fds[1], &options, &transfer, &error));
    options = (fullbore_transfer_options){
        .size = sizeof options, .flags = FULLBORE_FLAG_AT_SOURCE_OFFSET, .source_offset = UINT64_MAX};
    FAILS(-EINVAL, fullbore_transfer_new(fds[0], fds[1], &options, &transfer, &error));
    options = (fullbore_transfer_options){.size = sizeof options, .deadline = -5};
    FAILS(-EINVAL, fullbore_transfer_new(fds[0], fds[1], &options, &transfer, &error));
    IS(0, fullbore_cancel_new(&cancel, NULL));
    FAILS(-EINVAL, fullbore_transfer_run(NULL, NULL, NULL, &error));
    FAILS(-EINVAL, fullbore_transfer_set_limit(NULL, 0, &error));
    FAILS(-EINVAL, fullbore_transfer_set_deadline(NULL, 0, &error));
    FAILS(-EINVAL, fullbore_transfer_set_cancel(NULL, cancel, &error));
    FAILS(-EINVAL, fullbore_transfer_take_back(NULL, &memory, &len, &error));
    IS(-EINVAL, fullbore_transfer_bytes(NULL));
    IS(-EINVAL, fullbore_transfer_taken(NULL));
    IS(-EINVAL, fullbore_transfer_method(NULL, 0, &bytes));
    fullbore_transfer_free(NULL);

    IS(0, fullbore_transfer_new(fds[0], fds[1], NULL, &transfer, NULL));
    /* Both are the same pipe, which the run detects. */
    FAILS(-EINVAL, fullbore_transfer_run(transfer, NULL, NULL, &error));
    FAILS(-EINVAL, fullbore_transfer_set_deadline(transfer, -1, &error));
    FAILS(-EINVAL, fullbore_transfer_set_cancel(transfer, NULL, &error));
    FAILS(-EINVAL, fullbore_transfer_take_back(transfer, NULL, &len, &error));
    FAILS(-EINVAL, fullbore_transfer_take_back(transfer, &memory, NULL, &error));
    IS(0, fullbore_transfer_method(transfer, SIZE_MAX, NULL));
    IS(0, fullbore_transfer_take_back(transfer, &memory, &len, NULL));
    IS(0, len);
    FAILS(-EINVAL, fullbore_transfer_take_back(transfer, &memory, &len, &error));
    FAILS(-EINVAL, fullbore_transfer_run(transfer, NULL, NULL, &error));
    FAILS(-EINVAL, fullbore_transfer_set_limit(transfer, 1, &error));
    fullbore_transfer_free(transfer);
    fullbore_cancel_free(cancel);
}

static void tees(void) {
    fullbore_tee *tee;
    fullbore_cancel *cancel;
    IS(0, fullbore_cancel_new(&cancel, NULL));
    FAILS(-EINVAL, fullbore_tee_new(fds[0], NULL, NULL, &error));
    FAILS(-EBADF, fullbore_tee_new(closed, NULL, &tee, &error));
    fullbore_transfer_options options = {.size = sizeof options, .flags = FULLBORE_FLAG_VISIBLE};
    FAILS(-EINVAL, fullbore_tee_new(fds[0], &options, &tee, &error));
    options = (fullbore_transfer_options){.size = sizeof options, .sink_offset = 1};
    FAILS(-EINVAL, fullbore_tee_new(fds[0], &options, &tee, &error));
    options = (fullbore_transfer_options){.size = sizeof options, .guarantee = FULLBORE_GUARANTEE_REFERENCE};
    FAILS(-EINVAL, fullbore_tee_new(fds[0], &options, &tee, &error));
    FAILS(-EINVAL, fullbore_tee_add(NULL, fds[1], 0, 0, &error));
    FAILS(-EINVAL, fullbore_tee_run(NULL, &error));
    FAILS(-EINVAL, fullbore_tee_set_deadline(NULL, 0, &error));
    FAILS(-EINVAL, fullbore_tee_set_cancel(NULL, cancel, &error));
    IS(-EINVAL, fullbore_tee_taken(NULL));
    IS(-EINVAL, fullbore_tee_sink_bytes(NULL, 0));
    FAILS(-EINVAL, fullbore_tee_sink_error(NULL, 0, &error));
    IS(-EINVAL, fullbore_tee_sink_is_dropped(NULL, 0));
    IS(-EINVAL, fullbore_tee_sink_would_block(NULL, 0));
    fullbore_tee_free(NULL);

    IS(0, fullbore_tee_new(fds[0], NULL, &tee, NULL));
    FAILS(-EINVAL, fullbore_tee_run(tee, &error));
    FAILS(-EBADF, fullbore_tee_add(tee, closed, 0, 0, &error));
    FAILS(-EINVAL, fullbore_tee_add(tee, fds[1], -1, 0, &error));
    FAILS(-EINVAL, fullbore_tee_add(tee, fds[1], 0, 3, &error));
    FAILS(-EINVAL, fullbore_tee_set_deadline(tee, -1, &error));
    FAILS(-EINVAL, fullbore_tee_set_cancel(tee, NULL, &error));
    IS(-EINVAL, fullbore_tee_sink_bytes(tee, 0));
    FAILS(-EINVAL, fullbore_tee_sink_error(tee, 0, &error));
    IS(-EINVAL, fullbore_tee_sink_is_dropped(tee, 0));
    IS(-EINVAL, fullbore_tee_sink_would_block(tee, SIZE_MAX));
    /* The sink is the source. */
    IS(0, fullbore_tee_add(tee, fds[1], 0, 0, NULL));
    FAILS(-EINVAL, fullbore_tee_run(tee, &error));
    FAILS(-EINVAL, fullbore_tee_add(tee, fds[1], 0, 0, &error));
    fullbore_tee_free(tee);
    fullbore_cancel_free(cancel);
}

/* Returns a duplicate of a file descriptor, with a number that no other file gets. It is closed once an object
 * uses it, so that no call waits or uses another file. */
static int duplicate(int fd) {
    int made = fcntl(fd, F_DUPFD_CLOEXEC, closed + 1);
    CHECK(made > closed);
    return made;
}

/* Checks that the call fails with EBADF on this side. */
#define IS_CLOSED(wanted_side, call)    \
    do {                                \
        memset(&error, 0, sizeof error); \
        IS(-EBADF, call);               \
        IS(-EBADF, error.code);         \
        IS(wanted_side, error.side);    \
    } while (0)

static void closed_too_early(void) {
    const void *memory;
    void *lent;
    size_t len;
    char byte = 'x';
    int null = open("/dev/null", O_RDWR), fd = duplicate(null);
    fullbore_producer *producer;
    IS(0, fullbore_producer_new(fd, NULL, &producer, NULL));
    close(fd);
    IS(1, fullbore_producer_write(producer, &byte, 1, NULL));
    IS_CLOSED(FULLBORE_SIDE_SINK, fullbore_producer_flush(producer, &error));
    IS_CLOSED(FULLBORE_SIDE_SINK, fullbore_producer_finish(producer, &error));
    IS_CLOSED(FULLBORE_SIDE_SINK, fullbore_producer_reserve(producer, 1, &lent, &error));
    IS(0, fullbore_producer_sent(producer));
    fullbore_producer_free(producer);
    fd = duplicate(null);
    IS(0, fullbore_producer_new(fd, NULL, &producer, NULL));
    IS(0, fullbore_producer_reserve(producer, 1, &lent, NULL));
    close(fd);
    IS_CLOSED(FULLBORE_SIDE_SINK, fullbore_producer_commit(producer, 1, &error));
    fullbore_producer_free(producer);

    fullbore_repeat *repeat;
    fd = duplicate(null);
    IS(0, fullbore_repeat_new(fd, "y\n", 2, NULL, &repeat, NULL));
    close(fd);
    IS_CLOSED(FULLBORE_SIDE_SINK, fullbore_repeat_send(repeat, 1, &error));
    fullbore_repeat_free(repeat);

    fullbore_consumer *consumer;
    fd = duplicate(fds[0]);
    IS(0, fullbore_consumer_new(fd, NULL, &consumer, NULL));
    close(fd);
    IS_CLOSED(FULLBORE_SIDE_SOURCE, fullbore_consumer_read(consumer, &byte, 1, &error));
    IS_CLOSED(FULLBORE_SIDE_SOURCE, fullbore_consumer_fill(consumer, &memory, &len, &error));
    IS_CLOSED(FULLBORE_SIDE_SOURCE, fullbore_consumer_discard(consumer, 1, &error));
    IS(0, fullbore_consumer_consume(consumer, 0, NULL));
    fullbore_consumer_free(consumer);

    fullbore_transfer *transfer;
    fullbore_tee *tee;
    CHECK(write(fds[1], "hello", 5) == 5);
    for (int side = FULLBORE_SIDE_SOURCE; side <= FULLBORE_SIDE_SINK; side++) {
        fd = duplicate(side == FULLBORE_SIDE_SOURCE ? fds[0] : null);
        int source = side == FULLBORE_SIDE_SOURCE ? fd : fds[0], sink = side == FULLBORE_SIDE_SINK ? fd : null;
        IS(0, fullbore_transfer_new(source, sink, NULL, &transfer, NULL));
        IS(0, fullbore_tee_new(source, NULL, &tee, NULL));
        IS(0, fullbore_tee_add(tee, sink, 0, 0, NULL));
        close(fd);
        IS_CLOSED(side, fullbore_transfer_run(transfer, NULL, NULL, &error));
        IS_CLOSED(side, fullbore_tee_run(tee, &error));
        fullbore_transfer_free(transfer);
        fullbore_tee_free(tee);
    }
    close(null);
}

static void monitors(void) {
    fullbore_monitor *monitor;
    char *overview;
    FAILS(-EINVAL, fullbore_monitor_new(0, NULL, &error));
    FAILS(-EINVAL, fullbore_monitor_new(2, &monitor, &error));
    FAILS(-EINVAL, fullbore_monitor_new_tree(getpid(), 0, NULL, &error));
    int32_t pids[] = {0, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof pids / sizeof *pids; i++)
        FAILS(-EINVAL, fullbore_monitor_new_tree(pids[i], 0, &monitor, &error));
    IS(-ESRCH, fullbore_monitor_new_tree(INT32_MAX, 0, &monitor, &error));
    CHECK(error.cause == FULLBORE_CAUSE_NOT_FOUND && monitor == NULL);
    FAILS(-EINVAL, fullbore_monitor_new_named(NULL, 0, &monitor, &error));
    FAILS(-EINVAL, fullbore_monitor_new_named("\xff", 0, &monitor, &error));
    FAILS(-EINVAL, fullbore_monitor_new_named("cat", 0, NULL, &error));
    FAILS(-EINVAL, fullbore_monitor_once(NULL, 0, &overview, &error));
    FAILS(-EINVAL, fullbore_monitor_scan(NULL, &overview, &error));
    FAILS(-EINVAL, fullbore_monitor_sample(NULL, 0, &error));
    FAILS(-EINVAL, fullbore_monitor_forget(NULL, &error));
    IS(-EINVAL, fullbore_monitor_next_sample(NULL));
    fullbore_monitor_free(NULL);

    IS(0, fullbore_monitor_new_tree(getpid(), 0, &monitor, NULL));
    FAILS(-EINVAL, fullbore_monitor_once(monitor, -1, &overview, &error));
    FAILS(-EINVAL, fullbore_monitor_once(monitor, INT64_MAX, &overview, &error));
    FAILS(-EINVAL, fullbore_monitor_once(monitor, 0, NULL, &error));
    FAILS(-EINVAL, fullbore_monitor_scan(monitor, NULL, &error));
    FAILS(-EINVAL, fullbore_monitor_sample(monitor, -1, &error));
    CHECK(fullbore_monitor_next_sample(monitor) > 0);

    fullbore_overview_free(NULL);

    IS(0, fullbore_monitor_scan(monitor, &overview, NULL));
    CHECK(overview[0] == '{');
    fullbore_overview_free(overview);
    IS(0, fullbore_monitor_forget(monitor, NULL));
    fullbore_monitor_free(monitor);
}

int main(void) {
    IS(0, fullbore_pipe(fds, 0, NULL));
    /* A number that no other file gets here. */
    closed = fcntl(fds[0], F_DUPFD, 900);
    close(closed);
    cancels();
    pipes();
    producers();
    repeats();
    consumers();
    transfers();
    tees();
    closed_too_early();
    monitors();
    close(fds[0]);
    close(fds[1]);
    return 0;
}
