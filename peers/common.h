/*
 * What the programs share: options, error exits, the clock, memory, CPUs, and processes that end together.
 *
 * Exit codes: 0 done; 1 something failed; 2 the command line is wrong; 3 this machine or user may
 * not do it.
 */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FAILED = 1, USAGE = 2, REFUSED = 3 };

/* ---- Errors ------------------------------------------------------------------------------ */

/* Whether one of the processes has said what is wrong; in memory that all share, once there are several. */
static atomic_int *said;

/* Says in one line on stderr what is wrong, unless another process has. */
__attribute__((format(printf, 1, 0)))
static inline void complain(const char *format, va_list arguments)
{
	char text[512], line[576];
	vsnprintf(text, sizeof text, format, arguments);
	int length = snprintf(line, sizeof line, "%s: %s\n", program_invocation_short_name, text);
	/* One call, so that the line stays whole. Whether it can be written makes no difference any more. */
	if ((!said || !atomic_exchange(said, 1)) && write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

/* Says why this process ends, and ends it. */
__attribute__((format(printf, 2, 3), noreturn))
static inline void quit(int code, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	exit(code);
}

/* The result of a call that has to go well. */
static inline long must(const char *what, long result)
{
	if (result >= 0)
		return result;
	switch (errno) {
	case ENOSYS: case EPERM: case EACCES: case EOPNOTSUPP: case EAFNOSUPPORT: case EPROTONOSUPPORT:
		quit(REFUSED, "%s is refused here: %s", what, strerror(errno));
	default:
		quit(FAILED, "%s: %s", what, strerror(errno));
	}
}

/* Makes a call again for as long as a signal interrupts it. */
#define RETRY(call) \
	({ long result_; do result_ = (call); while (result_ < 0 && errno == EINTR); result_; })
#define MUST(what, call) must(what, RETRY(call))

/* ---- Options ----------------------------------------------------------------------------- */

/* What all programs take, appended to what is their own. */
static struct {
	double seconds, warm_up;
	/* The CPUs of the two sides; -1 for any. */
	int cpus[2];
} common = { .seconds = 0.5, .warm_up = 0.1, .cpus = { -1, -1 } };

#define COMMON_OPTIONS \
	{ "seconds", required_argument, NULL, 'S' }, \
	{ "warm-up", required_argument, NULL, 'W' }, \
	{ "cpus", required_argument, NULL, 'C' }, \
	{ 0 }

#define COMMON_USAGE "[--seconds S] [--warm-up W] [--cpus A,B]"

static inline double number(const char *text, double least)
{
	char *end;
	double number = strtod(text, &end);
	if (end == text || *end || !isfinite(number) || number < least || number > 3600)
		quit(USAGE, "'%s' is no number of seconds from %g to 3600", text, least);
	return number;
}

/* Bytes, such as 65536 or 64K. */
static inline size_t size(const char *text)
{
	char *end;
	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (shift)
		end++;
	if (*text < '0' || *text > '9' || *end || errno || number == 0 || number > (1ULL << 40 >> shift))
		quit(USAGE, "'%s' is no number of bytes such as 65536 or 64K", text);
	return number << shift;
}

/* Takes one of the common options; with any other code, the command line was wrong. */
static inline void common_option(int code, char **argv, const char *usage)
{
	char more;
	switch (code) {
	case 'S':
		common.seconds = number(optarg, 1e-3);
		break;
	case 'W':
		common.warm_up = number(optarg, 0);
		break;
	case 'C':
		if (sscanf(optarg, "%d,%d%c", &common.cpus[0], &common.cpus[1], &more) != 2 ||
		    common.cpus[0] < 0 || common.cpus[1] < 0)
			quit(USAGE, "'%s' is no pair of CPUs such as 0,1", optarg);
		break;
	default:
		quit(USAGE, "'%s' is no option, or lacks its value; usage: %s", argv[optind - 1], usage);
	}
}

/* The first name after the options that is in the table, which ends with NULL, as its index. */
static inline int one_of(const char *const names[], const char *name, const char *usage)
{
	for (int i = 0; name && names[i]; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	quit(USAGE, "%s%s%s; usage: %s", name ? "'" : "a name is missing", name ? name : "",
	     name ? "' is not known" : "", usage);
}

/* ---- Time -------------------------------------------------------------------------------- */

/* Nanoseconds of the monotonic clock, which is the same for all processes. */
static inline uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Counts bytes from the end of a warm-up, which begins with the first of them, until the time is up. */
struct meter {
	uint64_t began, from, until, bytes;
};

/* Notes that so many more bytes have moved; true while there is time left. */
static inline bool goes_on(struct meter *meter, size_t bytes)
{
	uint64_t time = now();
	if (!meter->from) {
		if (!meter->began)
			meter->began = time;
		if (time - meter->began >= (uint64_t)(common.warm_up * 1e9))
			meter->from = time;
		return true;
	}
	meter->bytes += bytes;
	meter->until = time;
	return time - meter->from < (uint64_t)(common.seconds * 1e9);
}

/* Prints one line of figures. */
__attribute__((format(printf, 1, 2)))
static inline void say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	if (vprintf(format, arguments) < 0 || fflush(stdout) != 0)
		quit(FAILED, "print the figure: %s", strerror(errno));
	va_end(arguments);
}

static inline void say_gib_per_s(const struct meter *meter)
{
	if (!meter->bytes || meter->until == meter->from)
		quit(FAILED, "nothing came through while it was measured");
	say("%.6f\n", (double)meter->bytes / (1 << 30) / ((double)(meter->until - meter->from) / 1e9));
}

/* ---- Memory ------------------------------------------------------------------------------ */

/* The size of a huge page, and of what one page table maps, on x86-64 and on most others. */
#define HUGE_PAGE ((size_t)2 << 20)

enum backing { BASE_PAGES, HUGE_PAGES };

static inline bool huge_pages_are_off(void)
{
	char text[64] = "";
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	ssize_t length = RETRY(read(fd, text, sizeof text - 1));
	close(fd);
	return length <= 0 || strstr(text, "[never]");
}

/* Memory that shares no page table with other memory, not touched yet. It is kept until the end. */
static inline void *untouched_memory(size_t bytes, enum backing backing)
{
	size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	char *start = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		quit(FAILED, "mmap of %zu bytes: %s", whole, strerror(errno));
	start += HUGE_PAGE - (uintptr_t)start % HUGE_PAGE;
	if (backing == HUGE_PAGES) {
		if (huge_pages_are_off() || madvise(start, whole, MADV_HUGEPAGE) != 0)
			quit(REFUSED, "no huge pages; see /sys/kernel/mm/transparent_hugepage/enabled");
	} else {
		/* A kernel that has no huge pages does not know the advice, and does not need it. */
		(void)madvise(start, whole, MADV_NOHUGEPAGE);
	}
	return start;
}

/* The same, with every byte written once. */
static inline void *memory(size_t bytes, enum backing backing)
{
	return memset(untouched_memory(bytes, backing), 'X', bytes);
}

/* Has the compiler believe that somebody looks at a number. */
static inline void look_at(uint64_t value)
{
	__asm__ volatile("" : : "rm"(value));
}

/* ---- Processes --------------------------------------------------------------------------- */

/* One of the processes that measure together. */
struct process {
	const char *name;
	/* -1 for any. */
	int cpu;
	void (*run)(void);
};

static inline void pin(int cpu)
{
	if (cpu < 0)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	if (cpu < CPU_SETSIZE)
		CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		quit(USAGE, "CPU %d is not there, or not allowed here", cpu);
}

/* Says what is wrong, and goes on. */
__attribute__((format(printf, 1, 2)))
static inline void warn_of(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
}

static volatile sig_atomic_t late;

static inline void be_late(int signal)
{
	(void)signal;
	late = 1;
}

/*
 * Runs the processes, the first of which measures and prints, and returns this program's exit code.
 *
 * This process only waits. When the first one is done, or any of them goes wrong, or the time is up,
 * it kills the others. If it is killed itself, they die with it. So nobody has to
 * notice that the other side has gone, and all may hold on to all fds.
 */
static inline int run_together(const struct process *processes, int count, double at_most)
{
	pid_t parent = getpid(), pids[4] = { 0 };
	int code = -1;
	said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (said == MAP_FAILED) {
		said = NULL;
		must("mmap", -1);
	}
	must("PR_SET_PDEATHSIG", prctl(PR_SET_PDEATHSIG, SIGKILL));
	for (int i = 0; i < count; i++) {
		pids[i] = (pid_t)must("fork", fork());
		if (pids[i] == 0) {
			must("PR_SET_PDEATHSIG", prctl(PR_SET_PDEATHSIG, SIGKILL));
			if (getppid() != parent)
				exit(FAILED);
			pin(processes[i].cpu);
			processes[i].run();
			exit(0);
		}
	}
	/* Again and again, so that one which comes just before waitpid does no harm. */
	struct sigaction action = { .sa_handler = be_late };
	struct itimerval timer = { { 1, 0 }, { (time_t)at_most, 0 } };
	must("sigaction", sigaction(SIGALRM, &action, NULL));
	must("setitimer", setitimer(ITIMER_REAL, &timer, NULL));
	while (code < 0) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);
		if (pid < 0 && errno != EINTR)
			quit(FAILED, "waitpid: %s", strerror(errno));
		if (pid < 0 && late) {
			warn_of("no end in time");
			code = FAILED;
		}
		for (int i = 0; pid > 0 && i < count; i++) {
			if (pids[i] != pid)
				continue;
			pids[i] = 0;
			if (WIFSIGNALED(status)) {
				warn_of("the %s was killed by signal %d", processes[i].name, WTERMSIG(status));
				code = FAILED;
			} else if (WEXITSTATUS(status) != 0 || i == 0) {
				code = WEXITSTATUS(status);
			}
		}
	}
	for (int i = 0; i < count; i++)
		if (pids[i] > 0) {
			kill(pids[i], SIGKILL);
			RETRY(waitpid(pids[i], NULL, 0));
		}
	return code;
}

/* When a measurement has not ended by then, however busy the machine is, it will not. */
static inline double patience(void)
{
	return 60 + 4 * (common.seconds + common.warm_up);
}

#endif
