/*
 * lookup: what it costs the kernel to find the page behind an address, in nanoseconds a page.
 *
 * Where the kernel has its own benchmark (gup_test, for root, seldom built in), what that says. Elsewhere an
 * estimate: vmsplice(2) of a window of 256 pages into a pipe of our own, and of one page, both timed; what
 * the pages after the first take more is finding them and noting them in the pipe. Windows follow
 * each other through 64 MiB. Draining the pipe, and dropping pages to have them untouched, is not timed.
 */
#include "common.h"
#include <sys/ioctl.h>
#include <sys/uio.h>

#define USAGE_TEXT "lookup base_touched|base_untouched|huge_touched|huge_untouched " COMMON_USAGE

static const char *const NAMES[] = { "base_touched", "base_untouched", "huge_touched", "huge_untouched", NULL };

static bool huge, untouched;

/* Pages of one call. */
#define WINDOW 256

static size_t page;

/* Memory to look up: so many bytes. */
static char *region_of(size_t bytes)
{
	return memory(bytes, huge ? HUGE_PAGES : BASE_PAGES);
}

static void drop_if_untouched(char *start, size_t bytes)
{
	if (untouched)
		must("madvise", madvise(start, bytes, MADV_DONTNEED));
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Times or figures; more of them than this tell nothing new. */
struct found {
	size_t count;
	double values[1 << 16];
};

static bool note(struct found *found, double value)
{
	found->values[found->count++] = value;
	return found->count < sizeof found->values / sizeof *found->values;
}

static double median(struct found *found)
{
	qsort(found->values, found->count, sizeof *found->values, ascending);
	return found->count ? found->values[found->count / 2] : NAN;
}

/* ---- The kernel's own benchmark ---------------------------------------------------------- */

/* mm/gup_test.h, Linux 5.13. */
struct gup_test {
	uint64_t get_delta_usec, put_delta_usec, address, bytes;
	uint32_t pages_per_call, gup_flags, test_flags, which_pages[8];
};
#define GUP_FAST_BENCHMARK _IOWR('g', 1, struct gup_test)

/* Bytes of one call: its time is told in whole microseconds. */
#define BENCHMARK_REGION ((size_t)256 << 20)

static void ask_the_kernel(int benchmark)
{
	static struct found found;
	char *region = region_of(BENCHMARK_REGION);
	uint64_t warm = now() + (uint64_t)(common.warm_up * 1e9), end = warm + (uint64_t)(common.seconds * 1e9);
	bool room = true;
	while (room && (found.count == 0 || now() < end)) {
		struct gup_test test = { .address = (uintptr_t)region, .bytes = BENCHMARK_REGION, .pages_per_call = WINDOW };
		drop_if_untouched(region, BENCHMARK_REGION);
		if (RETRY(ioctl(benchmark, GUP_FAST_BENCHMARK, &test)) != 0)
			quit(REFUSED, "gup_test is another one here: %s", strerror(errno));
		if (now() >= warm)
			room = note(&found, (double)test.get_delta_usec * 1e3 / (double)(BENCHMARK_REGION / page));
	}
	say("%.3f\n", median(&found));
}

/* ---- The estimate ------------------------------------------------------------------------ */

#define REGION ((size_t)64 << 20)

/* The fewest spans that are measured, so that no single interruption decides the median. */
#define FEWEST_SPANS 5

static int ends[2], null;

/* Nanoseconds of vmsplice of so many bytes; the pipe is empty before and after. */
static double time_of(char *start, size_t bytes)
{
	struct iovec slice = { start, bytes };
	uint64_t began = now();
	ssize_t spliced = vmsplice(ends[1], &slice, 1, 0);
	uint64_t time = now() - began;
	if (must("vmsplice", spliced) != (long)bytes)
		quit(FAILED, "vmsplice took %zd of %zu bytes", spliced, bytes);
	for (size_t left = bytes; left > 0;)
		left -= (size_t)MUST("splice", splice(ends[0], NULL, null, NULL, left, 0));
	return (double)time;
}

static void estimate(void)
{
	static struct found alone, together;
	char *region = region_of(REGION), *one_page = memory(page, BASE_PAGES);
	must("pipe", pipe2(ends, O_CLOEXEC));
	/* A pipe has a slot for each page of its capacity; without the right to so many, it stays as it is. */
	(void)fcntl(ends[1], F_SETPIPE_SZ, (int)(WINDOW * page));
	size_t window = (size_t)must("F_GETPIPE_SZ", fcntl(ends[1], F_GETPIPE_SZ));
	if (window < 16 * page)
		quit(REFUSED, "an estimate needs a pipe of 16 slots, and the kernel gives %zu", window / page);
	if (window > WINDOW * page)
		window = WINDOW * page;
	null = (int)MUST("open /dev/null", open("/dev/null", O_WRONLY | O_CLOEXEC));

	/* What is dropped at once: a part of a huge page would split it. */
	size_t span = huge ? HUGE_PAGE : WINDOW * page;
	size_t calls = span / window, pages = span / page, at = 0;
	uint64_t warm = now() + (uint64_t)(common.warm_up * 1e9), end = warm + (uint64_t)(common.seconds * 1e9);
	bool room = true;
	while (room && (together.count < FEWEST_SPANS || now() < end)) {
		drop_if_untouched(region + at, span);
		double one = time_of(one_page, page), all = 0;
		for (size_t from = 0; from < span; from += window)
			all += time_of(region + at + from, window);
		if (now() >= warm)
			room = note(&alone, one) && note(&together, all);
		at = (at + span) % REGION;
	}
	double per_page = (median(&together) - (double)calls * median(&alone)) / (double)(pages - calls);
	if (!(per_page > 0))
		quit(FAILED, "many pages took no longer than one");
	say("%.3f\n", per_page);
}

static void run(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	int benchmark = open("/sys/kernel/debug/gup_test", O_RDWR | O_CLOEXEC);
	if (benchmark >= 0)
		ask_the_kernel(benchmark);
	else if (access("/sys/kernel/debug/gup_benchmark", F_OK) == 0)
		quit(REFUSED, "the benchmark of kernels before Linux 5.11 is not known here");
	else
		estimate();
}

int main(int argc, char **argv)
{
	static const struct option options[] = { COMMON_OPTIONS };
	int code;
	opterr = 0;
	while ((code = getopt_long(argc, argv, "", options, NULL)) >= 0)
		common_option(code, argv, USAGE_TEXT);
	int what = one_of(NAMES, argv[optind], USAGE_TEXT);
	if (optind + 1 != argc)
		quit(USAGE, "usage: " USAGE_TEXT);
	huge = what >= 2;
	untouched = what % 2;
	const struct process alone = { "process", common.cpus[0], run };
	return run_together(&alone, 1, patience());
}
