/*
 * pipe: a writer and a reader with a pipe between them; how fast bytes go through, in GiB/s.
 *
 *   write      write(2) of one buffer, again and again
 *   vmsplice   vmsplice(2) of two buffers in turn, over a pipe of half a buffer
 *   read       read(2) into one buffer
 *   sum        the same, and every 64-bit word added up
 *   splice     splice(2) to /dev/null
 */
#include "common.h"
#include <poll.h>
#include <sys/uio.h>

#define USAGE_TEXT "pipe --writer write|vmsplice --reader read|splice|sum --chunk BYTES [--pipe-size BYTES] " \
	"[--huge-page] [--busy-loop] [--same-buffer] [--dont-touch-pages] [--words] " COMMON_USAGE

enum writer { BY_WRITE, BY_VMSPLICE };
static const char *const WRITERS[] = { "write", "vmsplice", NULL };
enum reader { BY_READ, BY_SPLICE, BY_SUM };
static const char *const READERS[] = { "read", "splice", "sum", NULL };

static enum writer writer;
static enum reader reader;
static size_t chunk, pipe_size;
static enum backing backing = BASE_PAGES;
static bool busy_loop, same_buffer, untouched, new_words;
static int ends[2];

/* Fills a buffer with words that go on where the last one ended. */
static void fill(uint64_t *words, size_t bytes)
{
	static uint64_t word;
	for (size_t i = 0; i < bytes / sizeof *words; i++) {
		words[i] = word;
		word += 0x9E3779B97F4A7C15;
	}
}

static uint64_t sum(const uint64_t *words, size_t bytes)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < bytes / sizeof *words; i++)
		sum += words[i];
	return sum;
}

/* Whether a call is worth another try. */
static bool again(ssize_t result)
{
	return result < 0 && (errno == EINTR || (busy_loop && errno == EAGAIN));
}

static char *buffer(size_t bytes)
{
	return untouched ? untouched_memory(bytes, backing) : memory(bytes, backing);
}

static void send(char *buffer, size_t bytes)
{
	if (new_words)
		fill((uint64_t *)buffer, bytes);
	unsigned int flags = busy_loop ? SPLICE_F_NONBLOCK : 0;
	while (bytes > 0) {
		struct iovec slice = { buffer, bytes };
		ssize_t n = writer == BY_VMSPLICE ? vmsplice(ends[1], &slice, 1, flags)
						  : write(ends[1], buffer, bytes);
		if (again(n))
			continue;
		must(WRITERS[writer], n);
		buffer += n;
		bytes -= (size_t)n;
	}
}

static void run_writer(void)
{
	if (writer == BY_WRITE) {
		char *only = buffer(chunk);
		for (;;)
			send(only, chunk);
	}
	/* A buffer is free again when the other one has gone in whole: the pipe holds no more than that. */
	size_t bytes = same_buffer ? chunk / 2 : chunk;
	char *first = buffer(chunk);
	char *second = same_buffer ? first + bytes : buffer(chunk);
	for (;;) {
		send(first, bytes);
		send(second, bytes);
	}
}

static void run_reader(void)
{
	char *into = reader == BY_SPLICE ? NULL : memory(chunk, backing);
	int null = (int)MUST("open /dev/null", open("/dev/null", O_WRONLY | O_CLOEXEC));
	unsigned int flags = busy_loop ? SPLICE_F_NONBLOCK : 0;
	struct meter meter = { 0 };
	/* The writer's preparations are not measured. */
	struct pollfd readable = { .fd = ends[0], .events = POLLIN };
	MUST("poll", poll(&readable, 1, -1));
	ssize_t n = 0;
	do {
		n = reader == BY_SPLICE ? splice(ends[0], NULL, null, NULL, chunk, flags)
					: read(ends[0], into, chunk);
		if (again(n)) {
			n = 0;
			continue;
		}
		if (must(READERS[reader], n) == 0)
			quit(FAILED, "the stream ended");
		if (reader == BY_SUM)
			look_at(sum((const uint64_t *)into, (size_t)n));
	} while (n == 0 || goes_on(&meter, (size_t)n));
	say_gib_per_s(&meter);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "writer", required_argument, NULL, 'w' },
		{ "reader", required_argument, NULL, 'r' },
		{ "chunk", required_argument, NULL, 'c' },
		{ "pipe-size", required_argument, NULL, 'p' },
		{ "huge-page", no_argument, NULL, 'h' },
		{ "busy-loop", no_argument, NULL, 'b' },
		{ "same-buffer", no_argument, NULL, 's' },
		{ "dont-touch-pages", no_argument, NULL, 'u' },
		{ "words", no_argument, NULL, 'n' },
		COMMON_OPTIONS
	};
	bool has_writer = false, has_reader = false;
	int code;
	opterr = 0;
	while ((code = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (code) {
		case 'w': writer = (enum writer)one_of(WRITERS, optarg, USAGE_TEXT); has_writer = true; break;
		case 'r': reader = (enum reader)one_of(READERS, optarg, USAGE_TEXT); has_reader = true; break;
		case 'c': chunk = size(optarg); break;
		case 'p': pipe_size = size(optarg); break;
		case 'h': backing = HUGE_PAGES; break;
		case 'b': busy_loop = true; break;
		case 's': same_buffer = true; break;
		case 'u': untouched = true; break;
		case 'n': new_words = true; break;
		default: common_option(code, argv, USAGE_TEXT);
		}
	}
	if (optind < argc || !has_writer || !has_reader || !chunk)
		quit(USAGE, "usage: " USAGE_TEXT);
	if (same_buffer && writer != BY_VMSPLICE)
		quit(USAGE, "--same-buffer is for vmsplice");
	if (writer == BY_VMSPLICE) {
		if (chunk % 8192)
			quit(USAGE, "a chunk of %zu bytes cannot be cut into two of whole pages", chunk);
		if (pipe_size)
			quit(USAGE, "with vmsplice the pipe has half a chunk; leave --pipe-size out");
		pipe_size = chunk / 2;
	}

	must("pipe", pipe2(ends, O_CLOEXEC | (busy_loop ? O_NONBLOCK : 0)));
	if (pipe_size && (size_t)must("a pipe of that size", fcntl(ends[1], F_SETPIPE_SZ, (int)pipe_size)) != pipe_size
	    && writer == BY_VMSPLICE)
		quit(REFUSED, "a pipe of %zu bytes is needed, and the kernel made another", pipe_size);
	const struct process processes[] = {
		{ "reader", common.cpus[1], run_reader },
		{ "writer", common.cpus[0], run_writer },
	};
	return run_together(processes, 2, patience());
}
