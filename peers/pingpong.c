/*
 * pingpong: how long a message takes there and back over a transport, or how long a sleeping process
 * takes from being woken to running; in microseconds: median, 99th and 99.9th percentile.
 *
 * One process sends a message, the other receives all of it and sends as many bytes back; each round trip
 * is timed by itself. For wake_up one process sleeps in futex(2) and the other wakes it.
 */
#include "transport.h"

#define USAGE_TEXT "pingpong TRANSPORT --message BYTES --wait block|spin|adaptive, or pingpong wake_up; " COMMON_USAGE

#define WAKE_UP (MESSAGE_QUEUE + 1)
static const char *const NAMES[] = { TRANSPORT_NAMES, "wake_up", NULL };
static const char *const WAITS[] = { "block", "spin", "adaptive", NULL };

static struct shape shape = { .both_ways = true };
static struct link links[2];

/* ---- Times ------------------------------------------------------------------------------- */

/*
 * How often each time was seen, to three digits: times below 2048 ns have a bucket each, and from there
 * on 1024 buckets span a factor of two, as in an HdrHistogram. So a time costs the same few
 * nanoseconds, however many there are.
 */
#define BUCKETS (1024 * 56)
static uint64_t seen[BUCKETS], times;

static void note(uint64_t time)
{
	int shift = time < 2048 ? 0 : 63 - __builtin_clzll(time) - 10;
	seen[(uint64_t)shift * 1024 + (time >> shift)]++;
	times++;
}

/* The time, in microseconds, that so much of all times do not exceed. */
static double percentile(double share)
{
	uint64_t wanted = times - (uint64_t)((1 - share) * (double)times), so_far = 0;
	for (uint64_t bucket = 0; bucket < BUCKETS; bucket++) {
		so_far += seen[bucket];
		if (so_far >= wanted) {
			int shift = bucket < 2048 ? 0 : (int)(bucket / 1024) - 1;
			uint64_t first = (bucket - (uint64_t)shift * 1024) << shift;
			return (double)(first + (1ULL << shift) - 1) / 1e3;
		}
	}
	return NAN;
}

static void say_times(void)
{
	if (!times)
		quit(FAILED, "nothing came back while it was measured");
	say("%.3f %.3f %.3f\n", percentile(0.5), percentile(0.99), percentile(0.999));
}

/* ---- There and back ---------------------------------------------------------------------- */

static void run_ping(void)
{
	char *there = memory(shape.message, BASE_PAGES), *back = memory(shape.message, BASE_PAGES);
	uint64_t began = now(), warm = began + (uint64_t)(common.warm_up * 1e9);
	uint64_t last = began;
	/* The first round trips wait for the other process to start. */
	for (int i = 0; i < 64 || last < warm; i++) {
		send_all(&links[0], there, shape.message);
		receive_all(&links[0], back, shape.message);
		last = now();
	}
	uint64_t end = last + (uint64_t)(common.seconds * 1e9);
	while (last < end) {
		send_all(&links[0], there, shape.message);
		receive_all(&links[0], back, shape.message);
		uint64_t time = now();
		note(time - last);
		last = time;
	}
	say_times();
}

static void run_pong(void)
{
	char *message = memory(shape.message, BASE_PAGES);
	for (;;) {
		receive_all(&links[1], message, shape.message);
		send_all(&links[1], message, shape.message);
	}
}

/* ---- One wake-up ------------------------------------------------------------------------- */

/* How long the sleeper is left alone after it said that it is about to sleep, in nanoseconds. */
#define PAUSE 50000

static struct {
	/* How often the sleeper was woken: what it sleeps on. */
	APART _Atomic uint32_t woken;
	/* How often it has said that it is about to sleep, and that it ran again. */
	APART _Atomic uint32_t about_to_sleep;
	APART _Atomic uint32_t ran;
	/* When. */
	APART _Atomic uint64_t ran_at;
} *shared;

static void run_sleeper(void)
{
	for (uint32_t turn = 0;; turn++) {
		atomic_store(&shared->about_to_sleep, turn + 1);
		while (atomic_load(&shared->woken) == turn)
			if (futex(&shared->woken, FUTEX_WAIT, turn) < 0 && errno != EAGAIN && errno != EINTR)
				must("futex", -1);
		atomic_store_explicit(&shared->ran_at, now(), memory_order_relaxed);
		atomic_store(&shared->ran, turn + 1);
	}
}

static void run_waker(void)
{
	uint64_t began = now(), warm = began + (uint64_t)(common.warm_up * 1e9);
	uint64_t end = warm + (uint64_t)(common.seconds * 1e9), time = began;
	for (uint32_t turn = 1; time < end; turn++) {
		while (atomic_load(&shared->about_to_sleep) != turn)
			relax();
		for (uint64_t pause = now(); now() - pause < PAUSE;)
			relax();
		uint64_t called = now();
		atomic_store(&shared->woken, turn);
		must("futex", futex(&shared->woken, FUTEX_WAKE, 1));
		while (atomic_load(&shared->ran) != turn)
			relax();
		time = now();
		uint64_t ran = atomic_load_explicit(&shared->ran_at, memory_order_relaxed);
		if (time >= warm)
			note(ran > called ? ran - called : 0);
	}
	say_times();
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "message", required_argument, NULL, 'm' },
		{ "wait", required_argument, NULL, 'w' },
		COMMON_OPTIONS
	};
	bool has_wait = false;
	int code;
	opterr = 0;
	while ((code = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (code) {
		case 'm': shape.message = size(optarg); break;
		case 'w': shape.wait = (enum wait)one_of(WAITS, optarg, USAGE_TEXT); has_wait = true; break;
		default: common_option(code, argv, USAGE_TEXT);
		}
	}
	int what = one_of(NAMES, argv[optind], USAGE_TEXT);
	bool wake_up = what == WAKE_UP;
	if (optind + 1 != argc || (!wake_up && (!shape.message || !has_wait)))
		quit(USAGE, "usage: " USAGE_TEXT);

	if (wake_up) {
		shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (shared == MAP_FAILED)
			must("mmap of shared memory", -1);
		const struct process processes[] = {
			{ "waking process", common.cpus[0], run_waker },
			{ "sleeping process", common.cpus[1], run_sleeper },
		};
		return run_together(processes, 2, patience());
	}
	size_t wanted = shape.message;
	lay((enum transport)what, &shape, links);
	if (shape.message < wanted)
		quit(REFUSED, "a message may have %zu bytes at most here", shape.message);
	const struct process processes[] = {
		{ "asking process", common.cpus[0], run_ping },
		{ "answering process", common.cpus[1], run_pong },
	};
	return run_together(processes, 2, patience());
}
