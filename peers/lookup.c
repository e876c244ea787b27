/*
 * lookup: what it costs the kernel to find the page behind an address, in nanoseconds a page.
 *
 * Where the kernel has its own benchmark (gup_test, for root, seldom built in), what that says. Elsewhere an
 * estimate: vmsplice(2) of a window of pages into a pipe of our own, and of one page, both timed; what the
 * pages after the first take more is finding them and noting them in the pipe. Windows follow
 * each other through 64 MiB. Draining the pipe, and dropping pages to have them untouched, is not timed.
 */
#include "common.h"
#include <sys/ioctl.h>
#include <sys/uio.h>

#define USAGE_TEXT "lookup base_touched|base_untouched|huge_touched|huge_untouched " COMMON_USAGE

static const char *const NAMES[] = { "base_touched", "base_untouched", "huge_touched", "huge_untouched", NULL };

#define REGION ((size_t)64 << 20)

static bool huge, untouched;
static char *region;

/* ---- The kernel's own benchmark ---------------------------------------------------------- */

/* mm/gup_test.h, Linux 5.11. */
struct gup_test {
	uint64_t get_delta_usec, put_delta_usec, address, bytes;
	uint32_t pages_per_call, gup_flags, test_flags, which_pages[8];
};
#define GUP_FAST_BENCHMARK _IOWR('g', 1, struct gup_test)

static bool ask_the_kernel(size_t page)
{
	int fd = open("/sys/kernel/debug/gup_test", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	uint64_t began = now(), nanoseconds = 0, pages = 0;
	while (now() - began < (uint64_t)((common.warm_up + common.seconds) * 1e9)) {
		/* FOLL_WRITE is not asked for: vmsplice does not, either. */
		struct gup_test test = { .address = (uintptr_t)region, .bytes = REGION, .pages_per_call = 256 };
		if (untouched)
			must("madvise", madvise(region, REGION, MADV_DONTNEED));
		MUST("gup_test", ioctl(fd, GUP_FAST_BENCHMARK, &test));
		if (now() - began >= (uint64_t)(common.warm_up * 1e9)) {
			nanoseconds += test.get_delta_usec * 1000;
			pages += test.bytes / page;
		}
	}
	close(fd);
	if (!nanoseconds || !pages)
		quit(FAILED, "gup_test measured nothing");
	say("%.3f\n", (double)nanoseconds / (double)pages);
	return true;
}

/* ---- The estimate ------------------------------------------------------------------------ */

static int ends[2], null;

/* Has the pages gone, where they are to be untouched; huge pages as a whole, since a part would split them. */
static void drop(char *start, size_t bytes)
{
	size_t unit = huge ? HUGE_PAGE : 1, first = (size_t)(start - region) / unit * unit;
	size_t end = ((size_t)(start - region) + bytes + unit - 1) / unit * unit;
	if (untouched)
		must("madvise", madvise(region + first, end - first, MADV_DONTNEED));
}

/* Nanoseconds of vmsplice of so many bytes. */
static uint64_t time_of(char *start, size_t bytes)
{
	struct iovec slice = { start, bytes };
	drop(start, bytes);
	uint64_t began = now();
	ssize_t spliced = vmsplice(ends[1], &slice, 1, 0);
	uint64_t time = now() - began;
	if (must("vmsplice", spliced) != (long)bytes)
		quit(FAILED, "vmsplice took %zd of %zu bytes", spliced, bytes);
	for (size_t left = bytes; left > 0;)
		left -= (size_t)MUST("splice", splice(ends[0], NULL, null, NULL, left, 0));
	return time;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void estimate(size_t page)
{
	/* More windows than this tell nothing new. */
	static double found[1 << 16];
	size_t count = 0, at = 0;
	must("pipe", pipe2(ends, O_CLOEXEC));
	/* A pipe has a slot for each page of its capacity; without the right to so many, it stays as it is. */
	(void)fcntl(ends[1], F_SETPIPE_SZ, (int)(256 * page));
	size_t window = (size_t)must("F_GETPIPE_SZ", fcntl(ends[1], F_GETPIPE_SZ)) / page;
	if (window > 256)
		window = 256;
	if (window < 2)
		quit(REFUSED, "a pipe of one slot only");
	null = (int)MUST("open /dev/null", open("/dev/null", O_WRONLY | O_CLOEXEC));
	uint64_t warm = now() + (uint64_t)(common.warm_up * 1e9), end = warm + (uint64_t)(common.seconds * 1e9);
	for (uint64_t time = 0; time < end && count < sizeof found / sizeof *found; time = now()) {
		double many = (double)time_of(region + at, window * page);
		double one = (double)time_of(region + at, page);
		if (time >= warm)
			found[count++] = (many - one) / (double)(window - 1);
		at = (at + window * page) % (REGION / (window * page) * (window * page));
	}
	if (!count)
		quit(FAILED, "nothing was measured");
	qsort(found, count, sizeof *found, ascending);
	if (!(found[count / 2] > 0))
		quit(FAILED, "a window took no longer than a page");
	say("%.3f\n", found[count / 2]);
}

static void run(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	region = memory(REGION, huge ? HUGE_PAGES : BASE_PAGES);
	if (!ask_the_kernel(page))
		estimate(page);
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
