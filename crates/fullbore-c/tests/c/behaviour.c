/* Tests the promises of the header: no SIGPIPE, right bytes, errors with their side, cancels and deadlines.
 * With the argument "slow" no thread spins: valgrind runs one thread at a time, and a spinning thread would
 * block the other. */
#define _GNU_SOURCE
#include "check.h"
#include "pipeline.h"
#include <fcntl.h>
#include <fullbore-observe.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static fullbore_error error;
static volatile sig_atomic_t signals;

static void count_signal(int number) {
    (void)number;
    signals++;
}

static void pipe_of(int fds[2]) { IS(0, fullbore_pipe(fds, 0, NULL)); }

static void temporary(int *fd) {
    char name[] = "/tmp/fullbore-c-XXXXXX";
    *fd = mkstemp(name);
    CHECK(*fd >= 0);
    unlink(name);
}

static int is_pending(void) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, SIGPIPE);
}

static int is_blocked(void) {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, SIGPIPE);
}

/* The byte at a position of every stream here. */
static char byte_at(uint64_t at) { return (char)(at * 7 + (at >> 12)); }

static void fill(char *to, size_t len, uint64_t at) {
    for (size_t i = 0; i < len; i++) to[i] = byte_at(at + i);
}

static void compare(const char *bytes, size_t len, uint64_t at) {
    for (size_t i = 0; i < len; i++) CHECK(bytes[i] == byte_at(at + i));
}

/* ---- SIGPIPE ---- */

static void write_to_nobody(int sink, int way) {
    fullbore_producer_options options = {.size = sizeof options, .way = way};
    fullbore_producer *producer;
    static char big[600000];
    IS(0, fullbore_producer_new(sink, &options, &producer, NULL));
    IS(3, fullbore_producer_write(producer, "abc", 3, NULL));
    IS(-EPIPE, fullbore_producer_flush(producer, &error));
    CHECK(error.side == FULLBORE_SIDE_SINK && error.cause == FULLBORE_CAUSE_SYSTEM && error.moved == 0);
    const void *unsent;
    size_t len;
    IS(0, fullbore_producer_unsent(producer, &unsent, &len, NULL));
    CHECK(len == 3 && memcmp(unsent, "abc", 3) == 0);
    IS(-EPIPE, fullbore_producer_finish(producer, NULL));
    fullbore_producer_free(producer);

    /* A write that accepted bytes cannot return an error; the next one returns this deferred error. */
    IS(0, fullbore_producer_new(sink, &options, &producer, NULL));
    int64_t n = fullbore_producer_write(producer, big, sizeof big, &error);
    if (n > 0) n = fullbore_producer_write(producer, big, sizeof big, &error);
    IS(-EPIPE, n);
    fullbore_producer_free(producer);

    /* Freeing sends the remaining bytes. */
    IS(0, fullbore_producer_new(sink, &options, &producer, NULL));
    IS(3, fullbore_producer_write(producer, "abc", 3, NULL));
    fullbore_producer_free(producer);

    void *memory;
    IS(0, fullbore_producer_new(sink, &options, &producer, NULL));
    IS(0, fullbore_producer_reserve(producer, 100000, &memory, NULL));
    memset(memory, 1, 100000);
    IS(-EPIPE, fullbore_producer_commit(producer, 100000, &error));
    fullbore_producer_free(producer);
}

static void all_that_write_to_nobody(void) {
    int fds[2], source[2], file;
    pipe_of(fds);
    close(fds[0]);
    for (int way = FULLBORE_WAY_AUTO; way <= FULLBORE_WAY_RECYCLE; way++) write_to_nobody(fds[1], way);
    fullbore_repeat *repeat;
    IS(0, fullbore_repeat_new(fds[1], "y\n", 2, NULL, &repeat, NULL));
    IS(-EPIPE, fullbore_repeat_send(repeat, UINT64_MAX, &error));
    CHECK(error.side == FULLBORE_SIDE_SINK);
    fullbore_repeat_free(repeat);

    temporary(&file);
    CHECK(write(file, "hello", 5) == 5);
    for (int guarantee = 0; guarantee < 2; guarantee++) {
        fullbore_transfer_options options = {.size = sizeof options, .guarantee = guarantee};
        fullbore_transfer *transfer;
        lseek(file, 0, SEEK_SET);
        IS(0, fullbore_transfer_new(file, fds[1], &options, &transfer, NULL));
        IS(-EPIPE, fullbore_transfer_run(transfer, NULL, NULL, &error));
        CHECK(error.side == FULLBORE_SIDE_SINK);
        const void *memory;
        size_t len;
        IS(fullbore_transfer_taken(transfer) - fullbore_transfer_bytes(transfer),
           (fullbore_transfer_take_back(transfer, &memory, &len, NULL), len));
        CHECK(memcmp(memory, "hello", len) == 0);
        fullbore_transfer_free(transfer);

        pipe_of(source);
        CHECK(write(source[1], "hello", 5) == 5);
        close(source[1]);
        fullbore_tee *tee;
        IS(0, fullbore_tee_new(source[0], NULL, &tee, NULL));
        IS(0, fullbore_tee_add(tee, fds[1], FULLBORE_ON_ERROR_FAIL_ALL, FULLBORE_ON_ERROR_FAIL_ALL, NULL));
        IS(-EPIPE, fullbore_tee_run(tee, &error));
        CHECK(error.side == FULLBORE_SIDE_SINK && error.sink == 0);
        fullbore_tee_free(tee);
        close(source[0]);
    }
    lseek(file, 0, SEEK_SET);
    IS(-EPIPE, fullbore_copy(file, fds[1], NULL));

    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    close(sockets[1]);
    for (int guarantee = 0; guarantee < 2; guarantee++) {
        fullbore_transfer_options options = {.size = sizeof options, .guarantee = guarantee};
        fullbore_transfer *transfer;
        lseek(file, 0, SEEK_SET);
        IS(0, fullbore_transfer_new(file, sockets[0], &options, &transfer, NULL));
        IS(-EPIPE, fullbore_transfer_run(transfer, NULL, NULL, NULL));
        fullbore_transfer_free(transfer);
    }
    close(sockets[0]);
    close(file);
    close(fds[1]);
}

static void send_sigpipe_from_another_process(void) {
    pid_t here = getpid(), sender = fork();
    if (sender == 0) _exit(kill(here, SIGPIPE) == 0 ? 0 : 1);
    int status;
    CHECK(sender > 0 && waitpid(sender, &status, 0) == sender && status == 0);
}

/* Called while SIGPIPE is blocked. Closes the reader that it is given, if that is one. */
static int send_sigpipe_in_between(void *reader, const fullbore_progress *progress) {
    CHECK(progress->bytes == 1 && is_blocked());
    send_sigpipe_from_another_process();
    CHECK(signals == 0);
    int *fd = reader;
    if (*fd >= 0) close(*fd);
    return *fd < 0;
}

/* The signal of another process that comes during a call is handled after it, whether the call causes one or not. */
static void sigpipe_in_between(void) {
    signal(SIGPIPE, count_signal);
    for (int causes_one = 0; causes_one < 2; causes_one++) {
        int fds[2], none = -1, file;
        pipe_of(fds);
        temporary(&file);
        CHECK(write(file, "hello", 5) == 5 && lseek(file, 0, SEEK_SET) == 0);
        fullbore_transfer_options options = {.size = sizeof options, .chunk = 1};
        fullbore_transfer *transfer;
        IS(0, fullbore_transfer_new(file, fds[1], &options, &transfer, NULL));
        signals = 0;
        IS(causes_one ? -EPIPE : FULLBORE_ENDED_CANCELLED,
           fullbore_transfer_run(transfer, send_sigpipe_in_between, causes_one ? &fds[0] : &none, NULL));
        CHECK(signals == 1 && !is_pending() && !is_blocked());
        fullbore_transfer_free(transfer);
        if (!causes_one) close(fds[0]);
        close(fds[1]);
        close(file);
    }
    signals = 0;
    signal(SIGPIPE, SIG_DFL);
}

static void no_sigpipe(void) {
    /* By default it would end this program. */
    signal(SIGPIPE, SIG_DFL);
    all_that_write_to_nobody();
    CHECK(!is_pending() && !is_blocked());
    /* A handler is not called. */
    signal(SIGPIPE, count_signal);
    all_that_write_to_nobody();
    CHECK(signals == 0 && !is_pending() && !is_blocked());
    /* A blocked one does not stay pending. */
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    all_that_write_to_nobody();
    CHECK(!is_pending() && is_blocked());
    /* One that the program has raised itself stays pending. */
    raise(SIGPIPE);
    all_that_write_to_nobody();
    CHECK(is_pending() && is_blocked() && signals == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(signals == 1 && !is_pending());
    /* So does one that another process has sent. */
    pthread_sigmask(SIG_BLOCK, &set, &before);
    send_sigpipe_from_another_process();
    all_that_write_to_nobody();
    CHECK(is_pending() && is_blocked() && signals == 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(signals > 1 && !is_pending());
    sigpipe_in_between();
}

/* ---- the right bytes ---- */

enum { LONG = 3000000 };

struct reading {
    int fd;
    int wait;
    uint64_t bytes;
};

static void *read_all(void *arg) {
    struct reading *reading = arg;
    fullbore_consumer_options options = {.size = sizeof options, .wait = reading->wait};
    fullbore_consumer *consumer;
    IS(0, fullbore_consumer_new(reading->fd, &options, &consumer, NULL));
    const void *memory;
    for (size_t len;;) {
        IS(0, fullbore_consumer_fill(consumer, &memory, &len, NULL));
        if (len == 0) break;
        IS(len, fullbore_consumer_buffered(consumer));
        compare(memory, len, reading->bytes);
        IS(0, fullbore_consumer_consume(consumer, len, NULL));
        reading->bytes += len;
    }
    IS(reading->bytes, fullbore_consumer_taken(consumer));
    fullbore_consumer_free(consumer);
    return NULL;
}

static void produce(int way, int wait, int lend) {
    int fds[2];
    pthread_t thread;
    pipe_of(fds);
    struct reading reading = {.fd = fds[0], .wait = wait};
    CHECK(pthread_create(&thread, NULL, read_all, &reading) == 0);
    fullbore_producer_options options = {.size = sizeof options, .way = way, .wait = wait};
    fullbore_producer *producer;
    IS(0, fullbore_producer_new(fds[1], &options, &producer, NULL));
    size_t chunk = (size_t)fullbore_producer_chunk(producer);
    char *own = malloc(chunk);
    for (uint64_t at = 0; at < LONG;) {
        size_t len = LONG - at < chunk ? LONG - at : chunk;
        if (lend) {
            void *memory;
            IS(0, fullbore_producer_reserve(producer, chunk, &memory, NULL));
            fill(memory, len, at);
            IS(0, fullbore_producer_commit(producer, len, NULL));
        } else {
            len = len < 1234 ? len : 1234;
            fill(own, len, at);
            IS(len, fullbore_producer_write(producer, own, len, NULL));
        }
        at += len;
    }
    free(own);
    IS(0, fullbore_producer_finish(producer, NULL));
    IS(LONG, fullbore_producer_sent(producer));
    CHECK(fullbore_producer_way(producer) > 0 && fullbore_producer_way(producer) <= FULLBORE_WAY_RECYCLE);
    fullbore_producer_free(producer);
    close(fds[1]);
    pthread_join(thread, NULL);
    IS(LONG, reading.bytes);
    close(fds[0]);
}

static void right_bytes(int may_spin) {
    int last = may_spin ? FULLBORE_WAIT_ADAPTIVE : FULLBORE_WAIT_POLL;
    for (int wait = FULLBORE_WAIT_BLOCK; wait <= last; wait++)
        for (int lend = 0; lend < 2; lend++) produce(FULLBORE_WAY_AUTO, wait, lend);
    for (int way = FULLBORE_WAY_COPY; way <= FULLBORE_WAY_RECYCLE; way++) produce(way, FULLBORE_WAIT_BLOCK, 1);
}

static void pattern(void) {
    int fds[2];
    char got[16] = {0};
    fullbore_repeat *repeat;
    pipe_of(fds);
    IS(0, fullbore_repeat_new(fds[1], "yes\n", 4, NULL, &repeat, NULL));
    IS(0, fullbore_repeat_send(repeat, 6, NULL));
    IS(0, fullbore_repeat_send(repeat, 4, NULL));
    IS(10, fullbore_repeat_sent(repeat));
    CHECK(fullbore_repeat_way(repeat) > 0);
    fullbore_repeat_free(repeat);
    IS(10, read(fds[0], got, sizeof got));
    CHECK(memcmp(got, "yes\nyes\nyes\n", 10) == 0);
    close(fds[0]);
    close(fds[1]);
}

static void reading(void) {
    int fds[2];
    char got[8];
    fullbore_consumer *consumer;
    pipe_of(fds);
    CHECK(write(fds[1], "0123456789", 10) == 10);
    close(fds[1]);
    fullbore_consumer_options options = {.size = sizeof options, .buffer = 4};
    IS(0, fullbore_consumer_new(fds[0], &options, &consumer, NULL));
    IS(2, fullbore_consumer_read(consumer, got, 2, NULL));
    CHECK(memcmp(got, "01", 2) == 0);
    IS(5, fullbore_consumer_discard(consumer, 5, NULL));
    IS(3, fullbore_consumer_read(consumer, got, 8, NULL));
    CHECK(memcmp(got, "789", 3) == 0);
    IS(0, fullbore_consumer_read(consumer, got, 8, NULL));
    IS(0, fullbore_consumer_discard(consumer, 5, NULL));
    fullbore_consumer_free(consumer);
    close(fds[0]);
}

/* ---- transfers ---- */

struct seen {
    fullbore_transfer *transfer;
    uint64_t bytes;
    int calls;
};

static int see(void *user, const fullbore_progress *progress) {
    struct seen *seen = user;
    seen->calls++;
    CHECK(progress->seen && progress->seen_len == progress->step);
    compare(progress->seen, progress->seen_len, seen->bytes);
    seen->bytes += progress->step;
    IS(seen->bytes, progress->bytes);
    CHECK(progress->method > 0);
    /* The transfer is in use by this very call. */
    IS(-EBUSY, fullbore_transfer_bytes(seen->transfer));
    IS(-EBUSY, fullbore_transfer_run(seen->transfer, NULL, NULL, &error));
    CHECK(error.cause == FULLBORE_CAUSE_IN_USE);
    fullbore_transfer_free(seen->transfer);
    return 1;
}

static void transfer(void) {
    int source, sink;
    temporary(&source);
    temporary(&sink);
    static char bytes[200000], got[200000];
    fill(bytes, sizeof bytes, 0);
    CHECK(write(source, bytes, sizeof bytes) == sizeof bytes);

    /* A part of a file, and then the rest. */
    fullbore_transfer *transfer;
    fullbore_transfer_options options = {.size = sizeof options,
                                         .limit = 10,
                                         .flags = FULLBORE_FLAG_AT_SOURCE_OFFSET | FULLBORE_FLAG_AT_SINK_OFFSET,
                                         .source_offset = 5,
                                         .sink_offset = 3};
    IS(0, fullbore_transfer_new(source, sink, &options, &transfer, NULL));
    IS(FULLBORE_ENDED_AT_LIMIT, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    IS(10, fullbore_transfer_bytes(transfer));
    IS(0, fullbore_transfer_set_limit(transfer, 20, NULL));
    IS(FULLBORE_ENDED_AT_LIMIT, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    IS(20, fullbore_transfer_bytes(transfer));
    IS(20, fullbore_transfer_taken(transfer));
    uint64_t moved = 0, sum = 0;
    for (size_t i = 0; fullbore_transfer_method(transfer, i, &moved) > 0; i++) sum += moved;
    IS(20, sum);
    fullbore_transfer_free(transfer);
    IS(20, pread(sink, got, 20, 3));
    compare(got, 20, 5);
    IS(0, lseek(sink, 0, SEEK_CUR));

    /* The progress function sees the bytes, and stops the transfer. */
    CHECK(ftruncate(sink, 0) == 0);
    lseek(source, 0, SEEK_SET);
    options = (fullbore_transfer_options){.size = sizeof options, .flags = FULLBORE_FLAG_VISIBLE, .chunk = 65536};
    IS(0, fullbore_transfer_new(source, sink, &options, &transfer, NULL));
    struct seen seen = {.transfer = transfer};
    int ended;
    while ((ended = fullbore_transfer_run(transfer, see, &seen, &error)) == FULLBORE_ENDED_CANCELLED) {}
    IS(FULLBORE_ENDED_AT_END, ended);
    IS(sizeof bytes, seen.bytes);
    CHECK(seen.calls >= 3);
    fullbore_transfer_free(transfer);
    IS(sizeof bytes, pread(sink, got, sizeof got, 0));
    compare(got, sizeof got, 0);

    /* From file to file, but by read(2) and write(2). */
    CHECK(ftruncate(sink, 0) == 0);
    lseek(source, 0, SEEK_SET);
    lseek(sink, 0, SEEK_SET);
    options = (fullbore_transfer_options){.size = sizeof options, .flags = FULLBORE_FLAG_PLAIN};
    IS(0, fullbore_transfer_new(source, sink, &options, &transfer, NULL));
    IS(FULLBORE_ENDED_AT_END, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    IS(FULLBORE_METHOD_READ_WRITE, fullbore_transfer_method(transfer, 0, NULL));
    IS(0, fullbore_transfer_method(transfer, 1, NULL));
    fullbore_transfer_free(transfer);
    IS(sizeof bytes, pread(sink, got, sizeof got, 0));
    compare(got, sizeof got, 0);

    /* The failing side is named: a read-only sink, and a write-only source. */
    int fds[2];
    pipe_of(fds);
    lseek(source, 0, SEEK_SET);
    IS(-EBADF, fullbore_copy(source, fds[0], &error));
    CHECK(error.side == FULLBORE_SIDE_SINK);
    IS(-EBADF, fullbore_copy(fds[1], sink, &error));
    CHECK(error.side == FULLBORE_SIDE_SOURCE && error.moved == 0);

    /* Nothing to read yet, or no room. */
    options = (fullbore_transfer_options){.size = sizeof options, .flags = FULLBORE_FLAG_NONBLOCKING};
    IS(0, fullbore_transfer_new(fds[0], sink, &options, &transfer, NULL));
    IS(FULLBORE_ENDED_SOURCE_WOULD_BLOCK, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    fullbore_transfer_free(transfer);
    options.pipe_size = FULLBORE_PIPE_SIZE_KEEP;
    int64_t capacity = fullbore_pipe_capacity(fds[1], NULL);
    lseek(source, 0, SEEK_SET);
    IS(0, fullbore_transfer_new(source, fds[1], &options, &transfer, NULL));
    if (capacity < (int64_t)sizeof bytes)
        IS(FULLBORE_ENDED_SINK_WOULD_BLOCK, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    fullbore_transfer_free(transfer);
    IS(capacity, fullbore_pipe_capacity(fds[1], NULL));
    close(fds[0]);
    close(fds[1]);
    close(sink);
    close(source);
}

static void splitting(void) {
    int source[2], good[2], gone[2];
    fullbore_tee *tee;
    char got[8];
    pipe_of(source);
    pipe_of(good);
    pipe_of(gone);
    close(gone[0]);
    CHECK(write(source[1], "hello", 5) == 5);
    close(source[1]);
    IS(0, fullbore_tee_new(source[0], NULL, &tee, NULL));
    IS(0, fullbore_tee_add(tee, good[1], FULLBORE_ON_ERROR_FAIL_ALL, FULLBORE_ON_ERROR_FAIL_ALL, NULL));
    IS(0, fullbore_tee_add(tee, gone[1], FULLBORE_ON_ERROR_DROP, FULLBORE_ON_ERROR_DROP, NULL));
    IS(0, fullbore_tee_add(tee, gone[1], FULLBORE_ON_ERROR_IGNORE, FULLBORE_ON_ERROR_DROP, NULL));
    IS(FULLBORE_ENDED_AT_END, fullbore_tee_run(tee, NULL));
    IS(5, fullbore_tee_taken(tee));
    IS(5, fullbore_tee_sink_bytes(tee, 0));
    IS(0, fullbore_tee_sink_bytes(tee, 1));
    IS(0, fullbore_tee_sink_error(tee, 0, &error));
    IS(-EPIPE, fullbore_tee_sink_error(tee, 1, &error));
    CHECK(error.sink == 1 && error.side == FULLBORE_SIDE_SINK);
    IS(0, fullbore_tee_sink_error(tee, 2, &error));
    IS(0, fullbore_tee_sink_is_dropped(tee, 0));
    IS(1, fullbore_tee_sink_is_dropped(tee, 1));
    IS(1, fullbore_tee_sink_is_dropped(tee, 2));
    IS(0, fullbore_tee_sink_would_block(tee, 0));
    fullbore_tee_free(tee);
    IS(5, read(good[0], got, sizeof got));
    CHECK(memcmp(got, "hello", 5) == 0);
    close(source[0]);
    close(good[0]);
    close(good[1]);
    close(gone[1]);
}

/* ---- cancels and deadlines ---- */

static void *cancel_it(void *cancel) {
    IS(0, fullbore_cancel_now(cancel));
    return NULL;
}

static fullbore_cancel *on_alarm;

static void cancel_by_signal(int number) {
    (void)number;
    fullbore_cancel_now(on_alarm);
}

static void stops(void) {
    int fds[2], sink[2];
    pthread_t thread;
    fullbore_cancel *cancel, *other;
    fullbore_transfer *transfer;
    pipe_of(fds);
    pipe_of(sink);
    /* Another thread cancels; the bytes before and after are not lost. */
    IS(0, fullbore_cancel_new(&cancel, NULL));
    fullbore_transfer_options options = {.size = sizeof options, .cancel = cancel};
    IS(0, fullbore_transfer_new(fds[0], sink[1], &options, &transfer, NULL));
    CHECK(pthread_create(&thread, NULL, cancel_it, cancel) == 0);
    IS(FULLBORE_ENDED_CANCELLED, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    fullbore_cancel_free(cancel);
    IS(0, fullbore_transfer_set_deadline(transfer, fullbore_deadline_in(1000000), NULL));
    IS(0, fullbore_cancel_new(&other, NULL));
    IS(0, fullbore_transfer_set_cancel(transfer, other, NULL));
    IS(FULLBORE_ENDED_TIMED_OUT, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    /* A signal handler cancels. */
    on_alarm = other;
    signal(SIGALRM, cancel_by_signal);
    IS(0, fullbore_transfer_set_deadline(transfer, 0, NULL));
    ualarm(2000, 0);
    IS(FULLBORE_ENDED_CANCELLED, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    IS(1, fullbore_cancel_is_cancelled(other));
    fullbore_transfer_free(transfer);
    signal(SIGALRM, SIG_DFL);

    /* A passed deadline and a cancel are errors of functions that do not return a reason. */
    char byte;
    fullbore_consumer_options late = {.size = sizeof late, .deadline = fullbore_deadline_in(-1)};
    fullbore_consumer *consumer;
    IS(0, fullbore_consumer_new(fds[0], &late, &consumer, NULL));
    IS(-ETIMEDOUT, fullbore_consumer_read(consumer, &byte, 1, &error));
    CHECK(error.cause == FULLBORE_CAUSE_STOPPED && error.side == FULLBORE_SIDE_NONE);
    fullbore_consumer_free(consumer);
    fullbore_consumer_options stopped = {.size = sizeof stopped, .cancel = other};
    IS(0, fullbore_consumer_new(fds[0], &stopped, &consumer, NULL));
    IS(-ECANCELED, fullbore_consumer_read(consumer, &byte, 1, &error));
    CHECK(error.cause == FULLBORE_CAUSE_STOPPED);
    fullbore_consumer_free(consumer);
    /* A program built before the field `cancel` existed. */
    stopped.size = offsetof(fullbore_consumer_options, cancel);
    stopped.deadline = fullbore_deadline_in(-1);
    IS(0, fullbore_consumer_new(fds[0], &stopped, &consumer, NULL));
    IS(-ETIMEDOUT, fullbore_consumer_read(consumer, &byte, 1, &error));
    fullbore_consumer_free(consumer);
    fullbore_producer_options ended = {.size = sizeof ended, .cancel = other};
    fullbore_producer *producer;
    IS(0, fullbore_producer_new(sink[1], &ended, &producer, NULL));
    IS(1, fullbore_producer_write(producer, "x", 1, NULL));
    IS(-ECANCELED, fullbore_producer_flush(producer, &error));
    CHECK(error.cause == FULLBORE_CAUSE_STOPPED);
    fullbore_producer_free(producer);
    fullbore_cancel_free(other);

    fullbore_tee *tee;
    options = (fullbore_transfer_options){.size = sizeof options, .flags = FULLBORE_FLAG_NONBLOCKING};
    IS(0, fullbore_tee_new(fds[0], &options, &tee, NULL));
    IS(0, fullbore_tee_add(tee, sink[1], 0, 0, NULL));
    IS(FULLBORE_ENDED_SOURCE_WOULD_BLOCK, fullbore_tee_run(tee, NULL));
    IS(0, fullbore_tee_set_deadline(tee, fullbore_deadline_in(-1), NULL));
    IS(FULLBORE_ENDED_TIMED_OUT, fullbore_tee_run(tee, NULL));
    fullbore_tee_free(tee);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(sink[i]);
    }
}

/* A nonblocking producer keeps its unsent bytes. */
static void nonblocking(void) {
    int fds[2];
    static char bytes[4 << 20], got[1 << 16];
    fill(bytes, sizeof bytes, 0);
    pipe_of(fds);
    fullbore_producer_options options = {.size = sizeof options, .flags = FULLBORE_FLAG_NONBLOCKING};
    fullbore_producer *producer;
    IS(0, fullbore_producer_new(fds[1], &options, &producer, NULL));
    size_t written = 0, read_back = 0;
    int waited = 0;
    for (;;) {
        int64_t n = written < sizeof bytes
                        ? fullbore_producer_write(producer, bytes + written, sizeof bytes - written, &error)
                        : fullbore_producer_finish(producer, &error);
        if (n >= 0 && written == sizeof bytes) break;
        if (n > 0) written += (size_t)n;
        if (n < 0) {
            IS(-EAGAIN, n);
            waited++;
            ssize_t len = read(fds[0], got, sizeof got);
            CHECK(len > 0);
            compare(got, (size_t)len, read_back);
            read_back += (size_t)len;
        }
    }
    CHECK(waited > 0);
    IS(sizeof bytes, fullbore_producer_sent(producer));
    fullbore_producer_free(producer);
    close(fds[1]);
    for (ssize_t len; (len = read(fds[0], got, sizeof got)) > 0; read_back += (size_t)len)
        compare(got, (size_t)len, read_back);
    IS(sizeof bytes, read_back);
    close(fds[0]);
}

#ifdef WITH_RING
#include <fullbore-ring.h>

/* ---- sharing memory ---- */

/* Both ends share memory, and the bytes are right. */
static void sharing(uint32_t flags) {
    int fds[2];
    static char bytes[4000], got[1 << 16];
    pipe_of(fds);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(fds[1]);
        fullbore_consumer_options options = {.size = sizeof options, .flags = flags};
        fullbore_consumer *consumer;
        IS(0, fullbore_consumer_new(fds[0], &options, &consumer, NULL));
        uint64_t at = 0;
        for (int64_t n; (n = fullbore_consumer_read(consumer, got, sizeof got, &error)) != 0; at += (uint64_t)n) {
            CHECK(n > 0);
            compare(got, (size_t)n, at);
        }
        CHECK(at > 0 && at % sizeof bytes == 0);
        fullbore_consumer_free(consumer);
        _exit(0);
    }
    close(fds[0]);
    fullbore_producer_options options = {.size = sizeof options, .flags = flags};
    fullbore_producer *producer;
    IS(0, fullbore_producer_new(fds[1], &options, &producer, NULL));
    uint64_t at = 0, until = UINT64_MAX;
    while (at < until) {
        fill(bytes, sizeof bytes, at);
        IS(sizeof bytes, fullbore_producer_write(producer, bytes, sizeof bytes, &error));
        at += sizeof bytes;
        if (until == UINT64_MAX && fullbore_producer_way(producer) == FULLBORE_WAY_RING) until = at + (4 << 20);
    }
    CHECK(fullbore_producer_finish(producer, NULL) >= 0);
    fullbore_producer_free(producer);
    close(fds[1]);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

#else

/* A library without the feature refuses its flag, which is 128. */
static void refused_without_ring(void) {
    int fds[2];
    pipe_of(fds);
    fullbore_producer_options options = {.size = sizeof options, .flags = 128};
    fullbore_producer *producer;
    IS(-EINVAL, fullbore_producer_new(fds[1], &options, &producer, NULL));
    fullbore_consumer_options other = {.size = sizeof other, .flags = 128};
    fullbore_consumer *consumer;
    IS(-EINVAL, fullbore_consumer_new(fds[0], &other, &consumer, NULL));
    close(fds[0]);
    close(fds[1]);
}

#endif

/* ---- pipes, and watching them ---- */

static void pipes(void) {
    int fds[2], other[2];
    IS(0, fullbore_pipe(fds, 256 << 10, NULL));
    CHECK(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    int64_t capacity = fullbore_pipe_capacity(fds[0], NULL);
    /* A user who has used up what all pipes may have gets a pipe of one or two pages. */
    CHECK(capacity >= 256 << 10 || capacity <= 64 << 10);
    CHECK(write(fds[1], "hello", 5) == 5);
    IS(5, fullbore_pipe_queued(fds[0], NULL));
    IS(5, fullbore_pipe_queued(fds[1], NULL));
    pipe_of(other);
    capacity = fullbore_pipe_capacity(other[1], NULL);
    IS(capacity, fullbore_pipe_grow(other[1], 1, NULL));
    CHECK(fullbore_pipe_grow(other[1], (size_t)capacity * 2, NULL) >= capacity);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(other[i]);
    }
}

static long long number_after(const char *json, const char *key) { return atoll(after(json, key)); }

static void watching(void) {
    struct pipeline pipeline;
    start_pipeline(&pipeline);
    fullbore_monitor *monitor;
    IS(0, fullbore_monitor_new_tree(getpid(), 0, &monitor, NULL));
    char *overview;
    overview_with(&pipeline, monitor, &overview);
    const char *pipe = pipe_of_pipeline(&pipeline, overview);
    CHECK(has_after(pipe, "kind", "\"link\"") && number_after(pipe, "capacity") >= 5);
    CHECK(has_after(pipe, "path", "null") && has_after(pipe, "closed", "null"));
    /* The two stages follow each other in a chain. This program may have inherited pipes that are part of it. */
    const char *stage = overview;
    for (int i = 0; i < 2; i++) {
        do {
            stage = after(stage, "processes");
            CHECK(stage < pipe);
        } while (number_after(stage, "pid") != pipeline.children[i]);
        CHECK(number_after(stage, "uid") == getuid() && number_after(stage, "start") > 0);
        CHECK(!has_after(stage, "name", "\"\"") && !has_after(stage, "command", "\"\""));
    }
    fullbore_overview_free(overview);

    /* With a verdict. */
    IS(0, fullbore_monitor_once(monitor, 100000000, &overview, &error));
    CHECK(strstr(overview, "\"verdict\":{\"kind\":\"") && !has_after(overview, "words", "\"\""));
    CHECK(strstr(overview, "\"ran\":") && strstr(overview, "\"others_hidden\":"));
    fullbore_overview_free(overview);
    fullbore_monitor_free(monitor);
    end_pipeline(&pipeline);

    /* By the name of a process, and by the PID of one that has exited. */
    IS(0, fullbore_monitor_new_named("no such name", 0, &monitor, NULL));
    IS(0, fullbore_monitor_scan(monitor, &overview, NULL));
    CHECK(has_after(overview, "pipes", "[]") && has_after(overview, "chains", "[]"));
    fullbore_overview_free(overview);
    fullbore_monitor_free(monitor);
    IS(-ESRCH, fullbore_monitor_new_tree(pipeline.children[0], 0, &monitor, &error));
    CHECK(error.cause == FULLBORE_CAUSE_NOT_FOUND && monitor == NULL);
}

int main(int argc, char **argv) {
    int is_slow = argc > 1 && strcmp(argv[1], "slow") == 0;
    no_sigpipe();
    right_bytes(!is_slow);
    pattern();
    reading();
    transfer();
    splitting();
    stops();
    nonblocking();
#ifdef WITH_RING
    if (!is_slow) sharing(FULLBORE_FLAG_SHARED);
#else
    refused_without_ring();
#endif
    pipes();
    watching();
    return 0;
}
