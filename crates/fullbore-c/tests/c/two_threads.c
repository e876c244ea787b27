/* Calls every function from two threads. A call with an object that the other thread uses returns -EBUSY;
 * functions that several threads may use at a time return the right result to each. A test compares the names
 * here with the header. */
#define _GNU_SOURCE
#include "check.h"
#include "pipeline.h"
#include <fcntl.h>
#include <fullbore-observe.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static fullbore_error error;

static void pipe_of(int fds[2]) { IS(0, fullbore_pipe(fds, 0, NULL)); }

/* ---- one object, which only one thread at a time may use ---- */

struct shared {
    fullbore_consumer *consumer;
    int64_t got;
};

static void *read_one(void *arg) {
    struct shared *shared = arg;
    char byte;
    /* The main thread may be checking at this moment whether this call has begun. */
    do shared->got = fullbore_consumer_read(shared->consumer, &byte, 1, NULL);
    while (shared->got == -EBUSY);
    return NULL;
}

static void one_object_in_two_threads(void) {
    int fds[2];
    pthread_t thread;
    char byte;
    const void *memory;
    size_t len;
    struct shared shared;
    pipe_of(fds);
    IS(0, fullbore_consumer_new(fds[0], NULL, &shared.consumer, NULL));
    CHECK(pthread_create(&thread, NULL, read_one, &shared) == 0);
    /* The other thread waits for a byte, and uses the consumer until it gets one. */
    while (fullbore_consumer_taken(shared.consumer) == 0) poll(NULL, 0, 1);
    IS(-EBUSY, fullbore_consumer_taken(shared.consumer));
    IS(-EBUSY, fullbore_consumer_read(shared.consumer, &byte, 1, &error));
    CHECK(error.cause == FULLBORE_CAUSE_IN_USE && error.code == -EBUSY);
    IS(-EBUSY, fullbore_consumer_fill(shared.consumer, &memory, &len, NULL));
    IS(-EBUSY, fullbore_consumer_consume(shared.consumer, 0, NULL));
    IS(-EBUSY, fullbore_consumer_discard(shared.consumer, 1, NULL));
    IS(-EBUSY, fullbore_consumer_set_deadline(shared.consumer, 0, NULL));
    IS(-EBUSY, fullbore_consumer_buffered(shared.consumer));
    fullbore_consumer_free(shared.consumer);
    CHECK(write(fds[1], "x", 1) == 1);
    pthread_join(thread, NULL);
    IS(1, shared.got);
    fullbore_consumer_free(shared.consumer);
    close(fds[0]);
    close(fds[1]);
}

/* A call that another thread makes, and that waits until it is cancelled. */
struct waiting {
    int64_t (*call)(void *object);
    void *object;
    int64_t got;
};

static void *wait_in_it(void *arg) {
    struct waiting *waiting = arg;
    do waiting->got = waiting->call(waiting->object);
    while (waiting->got == -EBUSY);
    return NULL;
}

static int64_t write_much(void *producer) {
    static const char bytes[4 << 20];
    return fullbore_producer_write(producer, bytes, sizeof bytes, NULL);
}

static int64_t repeat_much(void *repeat) { return fullbore_repeat_send(repeat, 1 << 30, NULL); }

static int64_t run_transfer(void *transfer) { return fullbore_transfer_run(transfer, NULL, NULL, NULL); }

static int64_t run_tee(void *tee) { return fullbore_tee_run(tee, NULL); }

/* No function of an object waits for a call of another thread, or interleaves its bytes. */
static void objects_that_another_thread_uses(void) {
    int source[2], sink[2];
    pthread_t thread;
    fullbore_cancel *cancel;
    void *memory;
    const void *lent;
    size_t len;
    struct waiting waiting;
    pipe_of(source);
    pipe_of(sink);

    IS(0, fullbore_cancel_new(&cancel, NULL));
    fullbore_producer_options sends = {.size = sizeof sends, .cancel = cancel};
    fullbore_producer *producer;
    IS(0, fullbore_producer_new(sink[1], &sends, &producer, NULL));
    waiting = (struct waiting){write_much, producer, 0};
    CHECK(pthread_create(&thread, NULL, wait_in_it, &waiting) == 0);
    while (fullbore_producer_sent(producer) != -EBUSY) poll(NULL, 0, 1);
    IS(-EBUSY, fullbore_producer_write(producer, "x", 1, &error));
    CHECK(error.cause == FULLBORE_CAUSE_IN_USE);
    IS(-EBUSY, fullbore_producer_reserve(producer, 1, &memory, NULL));
    IS(-EBUSY, fullbore_producer_commit(producer, 0, NULL));
    IS(-EBUSY, fullbore_producer_flush(producer, NULL));
    IS(-EBUSY, fullbore_producer_finish(producer, NULL));
    IS(-EBUSY, fullbore_producer_set_deadline(producer, 0, NULL));
    IS(-EBUSY, fullbore_producer_unsent(producer, &lent, &len, NULL));
    IS(-EBUSY, fullbore_producer_way(producer));
    IS(-EBUSY, fullbore_producer_chunk(producer));
    fullbore_producer_free(producer);
    IS(0, fullbore_cancel_now(cancel));
    pthread_join(thread, NULL);
    CHECK(waiting.got < 4 << 20);
    fullbore_producer_free(producer);

    fullbore_cancel_free(cancel);
    IS(0, fullbore_cancel_new(&cancel, NULL));
    sends.cancel = cancel;
    fullbore_repeat *repeat;
    IS(0, fullbore_repeat_new(sink[1], "x", 1, &sends, &repeat, NULL));
    waiting = (struct waiting){repeat_much, repeat, 0};
    CHECK(pthread_create(&thread, NULL, wait_in_it, &waiting) == 0);
    while (fullbore_repeat_sent(repeat) != -EBUSY) poll(NULL, 0, 1);
    IS(-EBUSY, fullbore_repeat_send(repeat, 1, NULL));
    IS(-EBUSY, fullbore_repeat_set_deadline(repeat, 0, NULL));
    IS(-EBUSY, fullbore_repeat_way(repeat));
    fullbore_repeat_free(repeat);
    IS(0, fullbore_cancel_now(cancel));
    pthread_join(thread, NULL);
    IS(-ECANCELED, waiting.got);
    fullbore_repeat_free(repeat);

    fullbore_cancel_free(cancel);
    IS(0, fullbore_cancel_new(&cancel, NULL));
    fullbore_transfer_options moves = {.size = sizeof moves, .cancel = cancel};
    fullbore_transfer *transfer;
    IS(0, fullbore_transfer_new(source[0], sink[1], &moves, &transfer, NULL));
    waiting = (struct waiting){run_transfer, transfer, 0};
    CHECK(pthread_create(&thread, NULL, wait_in_it, &waiting) == 0);
    while (fullbore_transfer_bytes(transfer) != -EBUSY) poll(NULL, 0, 1);
    IS(-EBUSY, fullbore_transfer_run(transfer, NULL, NULL, NULL));
    IS(-EBUSY, fullbore_transfer_set_limit(transfer, 1, NULL));
    IS(-EBUSY, fullbore_transfer_set_deadline(transfer, 0, NULL));
    IS(-EBUSY, fullbore_transfer_set_cancel(transfer, cancel, NULL));
    IS(-EBUSY, fullbore_transfer_take_back(transfer, &lent, &len, NULL));
    IS(-EBUSY, fullbore_transfer_taken(transfer));
    IS(-EBUSY, fullbore_transfer_method(transfer, 0, NULL));
    fullbore_transfer_free(transfer);
    IS(0, fullbore_cancel_now(cancel));
    pthread_join(thread, NULL);
    IS(FULLBORE_ENDED_CANCELLED, waiting.got);
    fullbore_transfer_free(transfer);

    fullbore_cancel_free(cancel);
    IS(0, fullbore_cancel_new(&cancel, NULL));
    moves.cancel = cancel;
    fullbore_tee *tee;
    IS(0, fullbore_tee_new(source[0], &moves, &tee, NULL));
    IS(0, fullbore_tee_add(tee, sink[1], FULLBORE_ON_ERROR_DROP, FULLBORE_ON_ERROR_DROP, NULL));
    waiting = (struct waiting){run_tee, tee, 0};
    CHECK(pthread_create(&thread, NULL, wait_in_it, &waiting) == 0);
    while (fullbore_tee_taken(tee) != -EBUSY) poll(NULL, 0, 1);
    IS(-EBUSY, fullbore_tee_add(tee, sink[1], FULLBORE_ON_ERROR_DROP, FULLBORE_ON_ERROR_DROP, NULL));
    IS(-EBUSY, fullbore_tee_run(tee, NULL));
    IS(-EBUSY, fullbore_tee_set_deadline(tee, 0, NULL));
    IS(-EBUSY, fullbore_tee_set_cancel(tee, cancel, NULL));
    IS(-EBUSY, fullbore_tee_sink_bytes(tee, 0));
    IS(-EBUSY, fullbore_tee_sink_error(tee, 0, NULL));
    IS(-EBUSY, fullbore_tee_sink_is_dropped(tee, 0));
    IS(-EBUSY, fullbore_tee_sink_would_block(tee, 0));
    fullbore_tee_free(tee);
    IS(0, fullbore_cancel_now(cancel));
    pthread_join(thread, NULL);
    IS(FULLBORE_ENDED_CANCELLED, waiting.got);
    fullbore_tee_free(tee);

    fullbore_cancel_free(cancel);
    for (int end = 0; end < 2; end++) {
        close(source[end]);
        close(sink[end]);
    }
}

/* A thread that samples in a loop, and releases the monitor only between two calls. */
struct sampling {
    fullbore_monitor *monitor;
    atomic_int stop;
};

static void *sample_on(void *arg) {
    struct sampling *sampling = arg;
    while (!atomic_load(&sampling->stop)) {
        int got = fullbore_monitor_sample(sampling->monitor, 20000000, NULL);
        CHECK(got == 0 || got == -EBUSY);
    }
    return NULL;
}

/* Repeats a call until the other thread is in a call at the same time, the only reason to refuse it. */
#define UNTIL_BUSY(call) \
    do { \
        int64_t got = (call); \
        if (got == -EBUSY) break; \
        CHECK(got >= 0); \
    } while (1)

static int64_t scan_and_free(fullbore_monitor *monitor, int once) {
    char *overview = NULL;
    int got = once ? fullbore_monitor_once(monitor, 0, &overview, NULL) : fullbore_monitor_scan(monitor, &overview, NULL);
    CHECK((got == 0) == (overview != NULL));
    fullbore_overview_free(overview);
    return got;
}

static void monitor_in_two_threads(void) {
    struct sampling sampling = {0};
    pthread_t thread;
    IS(0, fullbore_monitor_new_tree(getpid(), 0, &sampling.monitor, NULL));
    CHECK(pthread_create(&thread, NULL, sample_on, &sampling) == 0);
    UNTIL_BUSY(fullbore_monitor_next_sample(sampling.monitor));
    UNTIL_BUSY(fullbore_monitor_sample(sampling.monitor, 0, NULL));
    UNTIL_BUSY(fullbore_monitor_forget(sampling.monitor, NULL));
    UNTIL_BUSY(scan_and_free(sampling.monitor, 0));
    UNTIL_BUSY(scan_and_free(sampling.monitor, 1));
    atomic_store(&sampling.stop, 1);
    pthread_join(thread, NULL);
    fullbore_monitor_free(sampling.monitor);
}

/* ---- what several threads may use at a time ---- */

static int rounds = 20;

/* The objects that both threads use. */
struct common {
    pthread_barrier_t start;
    fullbore_cancel *cancel;
    struct pipeline pipeline;
    char *overview;
    int fds[2];
};

/* Functions of file descriptors, with those of one pipe. */
static void use_pipe(struct common *common, int64_t page) {
    int *fds = common->fds, own[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    IS(0, fullbore_pipe_queued(fds[0], NULL));
    CHECK(fullbore_pipe_grow(fds[1], (size_t)page * 4, NULL) % page == 0);
    CHECK(fullbore_pipe_capacity(fds[0], NULL) % page == 0);
    pipe_of(own);
    CHECK(write(own[1], "hello", 5) == 5);
    close(own[1]);
    IS(5, fullbore_copy(own[0], null, NULL));
    close(own[0]);
    close(null);
}

/* Each thread has its own objects, of the same pipe and with the same cancel. */
static void make_objects(struct common *common, int with_monitors) {
    int *fds = common->fds;
    fullbore_cancel *cancel;
    fullbore_producer *producer;
    fullbore_repeat *repeat;
    fullbore_consumer *consumer;
    fullbore_transfer *transfer;
    fullbore_tee *tee;
    fullbore_monitor *monitor;
    fullbore_producer_options sends = {.size = sizeof sends, .cancel = common->cancel};
    fullbore_transfer_options moves = {.size = sizeof moves, .cancel = common->cancel};
    IS(0, fullbore_cancel_new(&cancel, NULL));
    IS(0, fullbore_cancel_is_cancelled(cancel));
    fullbore_cancel_free(cancel);
    IS(0, fullbore_producer_new(fds[1], &sends, &producer, NULL));
    fullbore_producer_free(producer);
    IS(0, fullbore_repeat_new(fds[1], "y\n", 2, &sends, &repeat, NULL));
    fullbore_repeat_free(repeat);
    IS(0, fullbore_consumer_new(fds[0], NULL, &consumer, NULL));
    fullbore_consumer_free(consumer);
    IS(0, fullbore_transfer_new(fds[0], fds[1], &moves, &transfer, NULL));
    fullbore_transfer_free(transfer);
    IS(0, fullbore_tee_new(fds[0], &moves, &tee, NULL));
    fullbore_tee_free(tee);
    if (!with_monitors) return;
    IS(0, fullbore_monitor_new(0, &monitor, NULL));
    fullbore_monitor_free(monitor);
    IS(0, fullbore_monitor_new_tree(getpid(), FULLBORE_FLAG_ALL_PIPES, &monitor, NULL));
    fullbore_monitor_free(monitor);
    IS(0, fullbore_monitor_new_named("no such name", 0, &monitor, NULL));
    fullbore_monitor_free(monitor);
}

/* An overview is text that nothing changes. */
static void read_overview(const struct common *common) {
    CHECK(is_complete(&common->pipeline, pipe_of_pipeline(&common->pipeline, common->overview)));
    CHECK(strstr(common->overview, "\"chains\""));
}

static void *use_all(void *arg) {
    struct common *common = arg;
    int64_t page = sysconf(_SC_PAGESIZE), last = 1;
    pthread_barrier_wait(&common->start);
    for (int round = 0; round < rounds; round++) {
        CHECK(strlen(fullbore_version()) > 0);
        int64_t now = fullbore_deadline_in(0);
        CHECK(now >= last);
        last = now;
        IS(0, fullbore_cancel_is_cancelled(common->cancel));
        use_pipe(common, page);
        make_objects(common, round % 10 == 0);
        if (round % 2 == 0) read_overview(common);
    }
    /* Both cancel, and each sees that it is cancelled. */
    pthread_barrier_wait(&common->start);
    IS(0, fullbore_cancel_now(common->cancel));
    IS(1, fullbore_cancel_is_cancelled(common->cancel));
    return NULL;
}

static void several_threads_at_a_time(void) {
    struct common common;
    fullbore_monitor *monitor;
    pthread_t thread;
    CHECK(pthread_barrier_init(&common.start, NULL, 2) == 0);
    IS(0, fullbore_cancel_new(&common.cancel, NULL));
    pipe_of(common.fds);
    start_pipeline(&common.pipeline);
    IS(0, fullbore_monitor_new_tree(getpid(), 0, &monitor, NULL));
    overview_with(&common.pipeline, monitor, &common.overview);
    fullbore_monitor_free(monitor);
    CHECK(pthread_create(&thread, NULL, use_all, &common) == 0);
    use_all(&common);
    pthread_join(thread, NULL);
    fullbore_overview_free(common.overview);
    fullbore_cancel_free(common.cancel);
    pthread_barrier_destroy(&common.start);
    end_pipeline(&common.pipeline);
    close(common.fds[0]);
    close(common.fds[1]);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) rounds = 3; /* Under valgrind, each takes a second. */
    one_object_in_two_threads();
    objects_that_another_thread_uses();
    monitor_in_two_threads();
    several_threads_at_a_time();
    return 0;
}
