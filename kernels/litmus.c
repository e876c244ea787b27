// Runs the pairs of accesses that the ring of fullbore rests on, many times on two CPUs, and counts the outcomes
// that must not occur. docs/ring-memory-order.md says what each pair is for.
//
// Each pair is run with the orderings of crates/fullbore-ring/src/control.rs, and with all accesses relaxed. The
// latter count shows whether this machine reorders what is not ordered, so what the former proves: 0 there too means
// that the test could not have failed.
//
// Exit codes: 0 no forbidden outcome; 1 at least one; 3 there is only one CPU.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CELLS = 8192, LINE = 128 };

// How long each test runs, in seconds. On a busy machine, both sides seldom run at the same moment.
static const double PATIENCE = 2;

// A cell is two words on cache lines of their own, and what each side has seen of them.
struct cell {
    _Alignas(LINE) _Atomic uint64_t first;
    _Alignas(LINE) _Atomic uint64_t second;
    _Alignas(LINE) uint64_t seen[2];
};

static struct cell cells[CELLS];
static pthread_barrier_t barrier;
static _Atomic unsigned arrived;

#define RELAXED memory_order_relaxed
#define ACQUIRE memory_order_acquire
#define RELEASE memory_order_release

// Sleeping: a side publishes a number and reads the flag of the other side, which sets its flag and reads the number.
// If both read 0, the other side sleeps, and nobody wakes it.
static void sleeping(struct cell *c, int side, int ordered) {
    if (side == 0) {
        atomic_store_explicit(&c->first, 1, ordered ? RELEASE : RELAXED);
        if (ordered) atomic_thread_fence(memory_order_seq_cst);
        c->seen[0] = atomic_load_explicit(&c->second, RELAXED);
    } else {
        if (ordered) {
            atomic_exchange_explicit(&c->second, 1, RELAXED);
            atomic_thread_fence(memory_order_seq_cst);
        } else {
            atomic_store_explicit(&c->second, 1, RELAXED);
        }
        c->seen[1] = atomic_load_explicit(&c->first, ordered ? ACQUIRE : RELAXED);
    }
}
static int sleeping_is_wrong(const struct cell *c) { return c->seen[0] == 0 && c->seen[1] == 0; }

// Publishing: bytes are stored before the number that says so, and loaded after it.
static void publishing(struct cell *c, int side, int ordered) {
    if (side == 0) {
        atomic_store_explicit(&c->first, 1, RELAXED);
        atomic_store_explicit(&c->second, 1, ordered ? RELEASE : RELAXED);
    } else {
        c->seen[0] = atomic_load_explicit(&c->second, ordered ? ACQUIRE : RELAXED);
        c->seen[1] = atomic_load_explicit(&c->first, RELAXED);
    }
}
static int publishing_is_wrong(const struct cell *c) { return c->seen[0] == 1 && c->seen[1] == 0; }

// Releasing: bytes are loaded before the number that says that they may be overwritten, and stored after it.
static void releasing(struct cell *c, int side, int ordered) {
    if (side == 0) {
        c->seen[0] = atomic_load_explicit(&c->first, RELAXED);
        atomic_store_explicit(&c->second, 1, ordered ? RELEASE : RELAXED);
    } else {
        c->seen[1] = atomic_load_explicit(&c->second, ordered ? ACQUIRE : RELAXED);
        atomic_store_explicit(&c->first, 1, RELAXED);
    }
}
static int releasing_is_wrong(const struct cell *c) { return c->seen[0] == 1 && c->seen[1] == 1; }

// Closing: the consumer claims by compare-and-exchange what the producer takes back by setting a bit. Only one of
// them may have it: 4 bytes are there, and 1 << 63 is the bit.
static void closing(struct cell *c, int side, int ordered) {
    memory_order both = ordered ? memory_order_acq_rel : RELAXED;
    uint64_t bit = (uint64_t)1 << 63;
    if (side == 0) {
        uint64_t found = atomic_fetch_or_explicit(&c->first, bit, both);
        c->seen[0] = 4 - (found & ~bit);
    } else {
        uint64_t none = 0;
        int is_claimed =
            atomic_compare_exchange_strong_explicit(&c->first, &none, 4, both, ordered ? ACQUIRE : RELAXED);
        c->seen[1] = is_claimed ? 4 : 0;
    }
}
static int closing_is_wrong(const struct cell *c) { return c->seen[0] + c->seen[1] != 4; }

struct test {
    const char *name;
    void (*run)(struct cell *, int side, int ordered);
    int (*is_wrong)(const struct cell *);
};
static const struct test tests[] = {
    {"sleeping", sleeping, sleeping_is_wrong},
    {"publishing", publishing, publishing_is_wrong},
    {"releasing", releasing, releasing_is_wrong},
    {"closing", closing, closing_is_wrong},
};
static const struct test *test;
static int ordered;
static int is_over;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *side(void *number) {
    int this = (int)(intptr_t)number;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(this, &cpu);
    if (sched_setaffinity(0, sizeof cpu, &cpu) != 0) {
        perror("litmus: sched_setaffinity");
        exit(3);
    }
    for (unsigned round = 1;; round++) {
        pthread_barrier_wait(&barrier);
        if (is_over) break;
        // Both begin at the same moment.
        atomic_fetch_add(&arrived, 1);
        while (atomic_load_explicit(&arrived, ACQUIRE) < 2 * round) sched_yield();
        for (unsigned i = 0; i < CELLS; i++) test->run(&cells[i], this, ordered);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

struct count {
    unsigned long wrong, all;
};

static struct count run(void) {
    struct count count = {0, 0};
    pthread_t threads[2];
    atomic_store(&arrived, 0);
    is_over = 0;
    pthread_barrier_init(&barrier, NULL, 3);
    for (intptr_t number = 0; number < 2; number++) {
        if (pthread_create(&threads[number], NULL, side, (void *)number) != 0) {
            fputs("litmus: no thread can be started\n", stderr);
            exit(3);
        }
    }
    for (double began = now(); !is_over;) {
        for (unsigned i = 0; i < CELLS; i++) {
            atomic_store(&cells[i].first, 0);
            atomic_store(&cells[i].second, 0);
            cells[i].seen[0] = cells[i].seen[1] = 0;
        }
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < CELLS; i++) count.wrong += test->is_wrong(&cells[i]);
        count.all += CELLS;
        is_over = now() - began > PATIENCE;
    }
    // Both sides wait for the next round, which is not run.
    pthread_barrier_wait(&barrier);
    for (int number = 0; number < 2; number++) pthread_join(threads[number], NULL);
    pthread_barrier_destroy(&barrier);
    return count;
}

int main(void) {
    int result = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        test = &tests[i];
        ordered = 0;
        struct count relaxed = run();
        ordered = 1;
        struct count as_the_ring = run();
        printf("%s%s %lu of %lu (relaxed %lu of %lu)", i == 0 ? "" : ", ", test->name, as_the_ring.wrong,
               as_the_ring.all, relaxed.wrong, relaxed.all);
        result |= as_the_ring.wrong != 0;
    }
    puts("");
    return result;
}
