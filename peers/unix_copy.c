/*
 * unix_copy: how fast an object goes into a Unix socket, copied or by reference, in GiB/s.
 *
 *   normal      send(2): the kernel copies the object
 *   zero_copy   vmsplice(2) of the object into a pipe of our own, and splice(2) from there into the socket
 *   sendfile    sendfile(2) from a memfd that holds the object
 *
 * The same object is sent again and again. The receiver splices socket -> pipe -> /dev/null, and the sender's
 * clock measures, from an empty socket to an empty one. With --chain the receiver is a front that
 * splices socket -> pipe -> TCP socket, and behind it a client drops what arrives; the client's clock
 * measures. With --count, so many objects are measured instead of a time; in a chain, as many bytes as
 * they have.
 */
#include "common.h"
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define USAGE_TEXT "unix_copy normal|zero_copy|sendfile [--chain] --object BYTES --sndbuf BYTES --pipe-size BYTES " \
	"[--count N] " COMMON_USAGE

enum mode { NORMAL, ZERO_COPY, SENDFILE };
static const char *const MODES[] = { "normal", "zero_copy", "sendfile", NULL };

/* The pipe through which the object's pages go into the socket. */
#define OWN_PIPE ((size_t)1 << 20)

/* The most that the client drops at once. */
#define DROP_AT_MOST ((size_t)1 << 20)

static enum mode mode;
static bool chain;
static size_t object_bytes, sndbuf, pipe_size;
static uint64_t count;
static int storage[2], network[2];

/* A pipe of that size, or as it comes where this user may not have one; says what it holds. */
static size_t lay_own_pipe(int ends[2], size_t wanted)
{
	must("pipe", pipe2(ends, O_CLOEXEC));
	(void)fcntl(ends[1], F_SETPIPE_SZ, (int)wanted);
	return (size_t)must("F_GETPIPE_SZ", fcntl(ends[1], F_GETPIPE_SZ));
}

/* Splices so many bytes, all of them. */
static void splice_all(int from, int to, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = MUST("splice", splice(from, NULL, to, NULL, bytes, 0));
		if (n == 0)
			quit(FAILED, "splice: the stream ended");
		bytes -= (size_t)n;
	}
}

/* ---- The sender -------------------------------------------------------------------------- */

static void send_normal(const char *object)
{
	for (size_t sent = 0; sent < object_bytes;)
		sent += (size_t)MUST("send", send(storage[0], object + sent, object_bytes - sent, MSG_NOSIGNAL));
}

static void send_by_reference(const char *object, const int own[2], size_t capacity)
{
	for (size_t sent = 0; sent < object_bytes;) {
		struct iovec slice = { (char *)object + sent, object_bytes - sent };
		/* The pipe is empty: what has room goes in, and the call does not wait. */
		if (slice.iov_len > capacity)
			slice.iov_len = capacity;
		size_t n = (size_t)MUST("vmsplice", vmsplice(own[1], &slice, 1, 0));
		splice_all(own[0], storage[0], n);
		sent += n;
	}
}

static void send_file(int file)
{
	off_t at = 0;
	while ((size_t)at < object_bytes)
		if (MUST("sendfile", sendfile(storage[0], file, &at, object_bytes - (size_t)at)) == 0)
			quit(FAILED, "sendfile: the object ended");
}

/* Waits until the other side has taken all out of the socket. */
static void wait_until_received(void)
{
	int queued;
	while (must("SIOCOUTQ", ioctl(storage[0], SIOCOUTQ, &queued)) == 0 && queued > 0)
		sched_yield();
}

static void run_sender(void)
{
	char *object = memory(object_bytes, huge_pages_are_off() ? BASE_PAGES : HUGE_PAGES);
	int own[2] = { -1, -1 }, file = -1;
	size_t capacity = mode == ZERO_COPY ? lay_own_pipe(own, OWN_PIPE) : 0;
	if (mode == SENDFILE) {
		file = (int)must("memfd_create", memfd_create("object", MFD_CLOEXEC));
		for (size_t written = 0; written < object_bytes;)
			written += (size_t)MUST("write", write(file, object + written, object_bytes - written));
	}
	struct meter meter = { 0 };
	uint64_t began = now(), sent = 0;
	for (;;) {
		switch (mode) {
		case NORMAL: send_normal(object); break;
		case ZERO_COPY: send_by_reference(object, own, capacity); break;
		case SENDFILE: send_file(file); break;
		}
		/* Only one of a chain's processes measures. */
		if (chain)
			continue;
		uint64_t time = now();
		if (!meter.from) {
			if (time - began >= (uint64_t)(common.warm_up * 1e9)) {
				wait_until_received();
				meter.from = now();
			}
			continue;
		}
		sent++;
		if (count ? sent >= count : time - meter.from >= (uint64_t)(common.seconds * 1e9))
			break;
	}
	wait_until_received();
	meter.until = now();
	meter.bytes = sent * object_bytes;
	say_gib_per_s(&meter);
}

/* ---- Those behind it --------------------------------------------------------------------- */

/* Looks at nothing: what comes out of the Unix socket goes to /dev/null, or into the TCP socket. */
static void run_receiver(void)
{
	int own[2];
	int to = chain ? network[0] : (int)MUST("open /dev/null", open("/dev/null", O_WRONLY | O_CLOEXEC));
	size_t capacity = lay_own_pipe(own, pipe_size);
	for (;;) {
		size_t n = (size_t)MUST("splice", splice(storage[1], NULL, own[1], NULL, capacity, 0));
		if (n == 0)
			quit(FAILED, "splice: the stream ended");
		splice_all(own[0], to, n);
	}
}

/* MSG_TRUNC drops bytes of a TCP stream without copying them (tcp(7)). */
static void run_client(void)
{
	struct meter meter = { 0 };
	bool time_left, bytes_left;
	do {
		size_t n = (size_t)MUST("recv", recv(network[1], NULL, DROP_AT_MOST, MSG_TRUNC));
		if (n == 0)
			quit(FAILED, "the stream ended");
		time_left = goes_on(&meter, n);
		bytes_left = meter.bytes < count * object_bytes;
	} while (count ? bytes_left : time_left);
	say_gib_per_s(&meter);
}

static void connect_to_client(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof address;
	int on = 1, listener = (int)must("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	must("bind", bind(listener, (struct sockaddr *)&address, length));
	must("listen", listen(listener, 1));
	must("getsockname", getsockname(listener, (struct sockaddr *)&address, &length));
	network[0] = (int)must("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	MUST("connect", connect(network[0], (struct sockaddr *)&address, length));
	network[1] = (int)MUST("accept", accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	must("TCP_NODELAY", setsockopt(network[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
	close(listener);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "chain", no_argument, NULL, 'x' },
		{ "object", required_argument, NULL, 'o' },
		{ "sndbuf", required_argument, NULL, 's' },
		{ "pipe-size", required_argument, NULL, 'p' },
		{ "count", required_argument, NULL, 'n' },
		COMMON_OPTIONS
	};
	int code;
	opterr = 0;
	while ((code = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (code) {
		case 'x': chain = true; break;
		case 'o': object_bytes = size(optarg); break;
		case 's': sndbuf = size(optarg); break;
		case 'p': pipe_size = size(optarg); break;
		case 'n': count = size(optarg); break;
		default: common_option(code, argv, USAGE_TEXT);
		}
	}
	mode = (enum mode)one_of(MODES, argv[optind], USAGE_TEXT);
	if (optind + 1 != argc || !object_bytes || !sndbuf || !pipe_size)
		quit(USAGE, "usage: " USAGE_TEXT);
	if (object_bytes > (size_t)1 << 30 || sndbuf > INT32_MAX || pipe_size > INT32_MAX)
		quit(USAGE, "an object has 1 GiB at most, a buffer and a pipe 2 GiB");

	int room = (int)sndbuf;
	must("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, storage));
	/* The first is for those whom no limit binds. */
	if (setsockopt(storage[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) != 0)
		must("SO_SNDBUF", setsockopt(storage[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room));
	if (chain)
		connect_to_client();
	const struct process copy[] = {
		{ "sender", common.cpus[0], run_sender },
		{ "receiver", common.cpus[1], run_receiver },
	};
	const struct process through[] = {
		{ "client", -1, run_client },
		{ "storage process", common.cpus[0], run_sender },
		{ "front process", common.cpus[1], run_receiver },
	};
	/* What is counted takes its time: a second for 64 MiB is plenty. */
	double at_most = patience() + (double)count * (double)object_bytes / (64 << 20);
	return chain ? run_together(through, 3, at_most) : run_together(copy, 2, at_most);
}
