/*
 * stream: how fast one process sends to another over a transport, or one process alone reads a file
 * again and again or uses memory; in GiB/s.
 *
 * Over a transport, the same buffer is sent again and again, and received into another; nobody looks
 * at it. Of what is done alone, a byte that is copied counts once.
 */
#include "transport.h"

#define USAGE_TEXT "stream TRANSPORT [--chunk BYTES] [--pipe-size BYTES] " COMMON_USAGE

enum { FILE_REREAD = MESSAGE_QUEUE + 1, MMAP_REREAD, MEMORY_COPY, MEMORY_COPY_BY_HAND, MEMORY_READ, MEMORY_WRITE };
static const char *const NAMES[] = {
	TRANSPORT_NAMES, "file_reread", "mmap_reread", "memory_copy", "memory_copy_by_hand", "memory_read",
	"memory_write", NULL
};

#define FILE_BYTES ((size_t)256 << 20)
#define MEMORY_BYTES ((size_t)128 << 20)
/* So many bytes of memory are used between two looks at the clock. */
#define STRETCH ((size_t)1 << 20)

static int what, reread;
static struct shape shape = { .message = 64 << 10, .wait = BLOCK };
static struct link links[2];
static struct meter meter;

static void run_sender(void)
{
	char *buffer = memory(shape.message, BASE_PAGES);
	for (;;)
		send_all(&links[0], buffer, shape.message);
}

static void run_receiver(void)
{
	char *buffer = memory(shape.message, BASE_PAGES);
	while (goes_on(&meter, receive_some(&links[1], buffer, shape.message)))
		;
	say_gib_per_s(&meter);
}

/* A file without a name, in the page cache and on the disk: writing it back is not to be measured. */
static int make_file(void)
{
	const char *parent = getenv("TMPDIR");
	char path[PATH_MAX];
	char *stretch = memory(STRETCH, BASE_PAGES);
	snprintf(path, sizeof path, "%s/peers-XXXXXX", parent && *parent ? parent : "/tmp");
	int file = (int)must("a temporary file", mkostemp(path, O_CLOEXEC));
	unlink(path);
	for (size_t left = FILE_BYTES; left > 0;)
		left -= (size_t)MUST("write a temporary file", write(file, stretch, left < STRETCH ? left : STRETCH));
	MUST("fdatasync", fdatasync(file));
	return file;
}

static void reread_file(void)
{
	char *buffer = memory(shape.message, BASE_PAGES);
	ssize_t n;
	off_t at = 0;
	do {
		n = MUST("read a file again", pread(reread, buffer, shape.message, at));
		at = n ? at + n : 0;
	} while (n == 0 || goes_on(&meter, (size_t)n));
}

static uint64_t sum(const uint64_t *words, size_t count)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += words[i];
	return sum;
}

static void fill(uint64_t *words, size_t count, uint64_t word)
{
	for (size_t i = 0; i < count; i++)
		words[i] = word;
}

/* One load and one store a word; volatile, so that the compiler makes nothing else of it. */
static void copy_by_hand(volatile uint64_t *to, const volatile uint64_t *from, size_t count)
{
	for (size_t i = 0; i < count; i += 8) {
		to[i] = from[i];
		to[i + 1] = from[i + 1];
		to[i + 2] = from[i + 2];
		to[i + 3] = from[i + 3];
		to[i + 4] = from[i + 4];
		to[i + 5] = from[i + 5];
		to[i + 6] = from[i + 6];
		to[i + 7] = from[i + 7];
	}
}

/* Stretch by stretch, from the beginning of memory or of the mapped file to its end, and again. */
static void use_memory(void)
{
	enum { WORDS = STRETCH / sizeof(uint64_t) };
	bool two = what == MEMORY_COPY || what == MEMORY_COPY_BY_HAND;
	size_t bytes = what == MMAP_REREAD ? FILE_BYTES : MEMORY_BYTES;
	uint64_t *from, *to = NULL, turn = 0;
	if (what == MMAP_REREAD) {
		from = mmap(NULL, bytes, PROT_READ, MAP_SHARED, reread, 0);
		if (from == MAP_FAILED)
			must("mmap", -1);
		/* The first time through maps each page, and is not measured. */
		look_at(sum(from, bytes / sizeof *from));
	} else {
		from = memory(bytes, HUGE_PAGES);
	}
	if (two)
		to = memory(bytes, HUGE_PAGES);
	size_t at = 0;
	do {
		switch (what) {
		case MEMORY_COPY:
			memcpy(&to[at], &from[at], STRETCH);
			break;
		case MEMORY_COPY_BY_HAND:
			copy_by_hand(&to[at], &from[at], WORDS);
			break;
		case MEMORY_WRITE:
			fill(&from[at], WORDS, ++turn);
			break;
		default:
			look_at(sum(&from[at], WORDS));
		}
		/* The same for memory. */
		__asm__ volatile("" ::: "memory");
		at = (at + WORDS) % (bytes / sizeof *from);
	} while (goes_on(&meter, STRETCH));
}

static void run_alone(void)
{
	if (what == FILE_REREAD || what == MMAP_REREAD)
		reread = make_file();
	if (what == FILE_REREAD)
		reread_file();
	else
		use_memory();
	say_gib_per_s(&meter);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "chunk", required_argument, NULL, 'c' },
		{ "pipe-size", required_argument, NULL, 'p' },
		COMMON_OPTIONS
	};
	int code;
	opterr = 0;
	while ((code = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (code) {
		case 'c': shape.message = size(optarg); break;
		case 'p': shape.pipe_size = size(optarg); break;
		default: common_option(code, argv, USAGE_TEXT);
		}
	}
	what = one_of(NAMES, argv[optind], USAGE_TEXT);
	if (optind + 1 != argc)
		quit(USAGE, "usage: " USAGE_TEXT);

	if (what > MESSAGE_QUEUE) {
		const struct process alone = { "process", common.cpus[1], run_alone };
		return run_together(&alone, 1, patience());
	}
	lay((enum transport)what, &shape, links);
	const struct process processes[] = {
		{ "receiver", common.cpus[1], run_receiver },
		{ "sender", common.cpus[0], run_sender },
	};
	return run_together(processes, 2, patience());
}
