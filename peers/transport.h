/*
 * The transports: how each is laid between two processes, and how a message is sent over it and received.
 *
 * All are laid before the processes are forked. Nothing that is laid has a name any more when it is used.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include "common.h"
#include <arpa/inet.h>
#include <limits.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum transport { PIPE, FIFO, UNIX_STREAM, SOCKETPAIR, UNIX_SEQPACKET, TCP, SHARED_MEMORY, MESSAGE_QUEUE };

/* In the order of the enumeration; programs that have more to offer write their own list after it. */
#define TRANSPORT_NAMES "pipe", "fifo", "unix_stream", "socketpair", "unix_seqpacket", "tcp", \
	"shared_memory", "message_queue"

enum wait { BLOCK, SPIN, ADAPTIVE };

/* What is wanted of a transport. */
struct shape {
	/* Bytes of one call. Where the transport takes less, lay() says so here. */
	size_t message;
	enum wait wait;
	/* 0: as it comes. */
	size_t pipe_size;
	bool both_ways;
};

#define BLOCK_BYTES ((size_t)64 << 10)
#define BLOCKS 16u

/* On a cache line of its own, also where the neighbouring line is fetched with each. */
#define APART _Alignas(256)

/* A ring in memory that both processes have mapped. */
struct ring {
	APART _Atomic uint32_t sent;
	APART _Atomic uint32_t received;
	APART _Atomic uint32_t sender_sleeps;
	APART _Atomic uint32_t receiver_sleeps;
	struct { APART uint32_t bytes; } lengths[BLOCKS];
	_Alignas(4096) unsigned char blocks[BLOCKS][BLOCK_BYTES];
};

/* A transport, as one of the two processes has it. */
struct link {
	enum transport transport;
	enum wait wait;
	/* Pipes, FIFOs, sockets and queues, which are fds on Linux. */
	int in, out;
	/* Shared memory. */
	struct ring *receives, *sends;
};

/* ---- Laying ------------------------------------------------------------------------------ */

static inline void lay_pipe(int ends[2], size_t pipe_size)
{
	must("pipe", pipe2(ends, O_CLOEXEC));
	if (pipe_size)
		must("a pipe of that size", fcntl(ends[1], F_SETPIPE_SZ, (int)pipe_size));
}

static inline void lay_fifo(int ends[2], size_t pipe_size)
{
	const char *parent = getenv("TMPDIR");
	char directory[PATH_MAX - 8], path[PATH_MAX];
	snprintf(directory, sizeof directory, "%s/peers-XXXXXX", parent && *parent ? parent : "/tmp");
	if (!mkdtemp(directory))
		must("a directory for a FIFO", -1);
	snprintf(path, sizeof path, "%s/fifo", directory);
	long made = mkfifo(path, 0600);
	/* Opening the reading end waits for a writer, and the other way round, unless told not to. */
	ends[0] = made < 0 ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ends[1] = ends[0] < 0 ? -1 : (int)RETRY(open(path, O_WRONLY | O_CLOEXEC));
	/* The name goes, whatever became of it. */
	int error = errno;
	unlink(path);
	rmdir(directory);
	errno = error;
	must("a FIFO", ends[1]);
	must("fcntl", fcntl(ends[0], F_SETFL, 0));
	if (pipe_size)
		must("a pipe of that size", fcntl(ends[1], F_SETPIPE_SZ, (int)pipe_size));
}

/* Two sockets, connected to each other by way of an address that the kernel chooses. */
static inline void connect_pair(int ends[2], struct sockaddr *address, socklen_t length, socklen_t room)
{
	int family = address->sa_family;
	int listener = (int)must("socket", socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	must("bind", bind(listener, address, length));
	must("listen", listen(listener, 1));
	must("getsockname", getsockname(listener, address, &room));
	ends[0] = (int)must("socket", socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	MUST("connect", connect(ends[0], address, room));
	ends[1] = (int)MUST("accept", accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	close(listener);
}

static inline void lay_unix_stream(int ends[2])
{
	/* Bound to no name, it gets an abstract one, which no file has (unix(7), autobind). */
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	connect_pair(ends, (struct sockaddr *)&address, sizeof(sa_family_t), sizeof address);
}

static inline void lay_tcp(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	connect_pair(ends, (struct sockaddr *)&address, sizeof address, sizeof address);
	/* A message is not to wait for the next one. */
	for (int i = 0, on = 1; i < 2; i++)
		must("TCP_NODELAY", setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

static inline struct ring *lay_rings(int count)
{
	size_t bytes = (size_t)count * sizeof(struct ring);
	int fd = (int)must("memfd_create", memfd_create("peers", MFD_CLOEXEC));
	must("ftruncate", ftruncate(fd, (off_t)bytes));
	void *rings = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rings == MAP_FAILED)
		must("mmap of shared memory", -1);
	close(fd);
	return rings;
}

/* A limit of message queues, or its default where the kernel does not say. */
static inline long queue_limit(const char *name, long usual)
{
	char path[64], text[32] = "";
	snprintf(path, sizeof path, "/proc/sys/fs/mqueue/%s", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return usual;
	ssize_t length = RETRY(read(fd, text, sizeof text - 1));
	close(fd);
	long limit = length > 0 ? atol(text) : usual;
	return limit > 0 && limit < usual ? limit : usual;
}

/* A queue, which both ends read from or write to. */
static inline int lay_queue(const struct shape *shape)
{
	static int made;
	char name[64];
	struct mq_attr attributes = {
		.mq_maxmsg = queue_limit("msg_max", 10),
		.mq_msgsize = (long)shape->message,
	};
	snprintf(name, sizeof name, "/peers-%ld-%d", (long)getpid(), made++);
	int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (shape->wait == BLOCK ? 0 : O_NONBLOCK);
	mqd_t queue = mq_open(name, flags, 0600, &attributes);
	must("mq_open", (long)queue);
	must("mq_unlink", mq_unlink(name));
	return (int)queue;
}

/* Lays a transport: links[0] sends and links[1] receives, and both do where that is wanted. */
static inline void lay(enum transport transport, struct shape *shape, struct link links[2])
{
	int there[2] = { -1, -1 }, back[2] = { -1, -1 };
	struct ring *rings = NULL;
	bool is_a_socket = false;
	switch (transport) {
	case PIPE:
		lay_pipe(there, shape->pipe_size);
		if (shape->both_ways)
			lay_pipe(back, shape->pipe_size);
		break;
	case FIFO:
		lay_fifo(there, shape->pipe_size);
		if (shape->both_ways)
			lay_fifo(back, shape->pipe_size);
		break;
	case UNIX_STREAM:
		lay_unix_stream(there);
		is_a_socket = true;
		break;
	case SOCKETPAIR:
		must("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, there));
		is_a_socket = true;
		break;
	case UNIX_SEQPACKET:
		must("socketpair", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, there));
		is_a_socket = true;
		break;
	case TCP:
		lay_tcp(there);
		is_a_socket = true;
		break;
	case SHARED_MEMORY:
		rings = lay_rings(2);
		break;
	case MESSAGE_QUEUE: {
		size_t longest = (size_t)queue_limit("msgsize_max", 8 << 10);
		if (shape->message > longest)
			shape->message = longest;
		there[0] = there[1] = lay_queue(shape);
		if (shape->both_ways)
			back[0] = back[1] = lay_queue(shape);
		break;
	}
	}
	if (is_a_socket) {
		/* Each end is read from and written to. */
		back[0] = there[1];
		back[1] = there[0];
	}
	links[0] = (struct link){ transport, shape->wait, back[0], there[1], rings ? &rings[1] : NULL, rings };
	links[1] = (struct link){ transport, shape->wait, there[0], back[1], rings, rings ? &rings[1] : NULL };
	/* mq_open took the flag already. */
	for (int i = 0; i < 4 && shape->wait != BLOCK && transport != MESSAGE_QUEUE; i++) {
		int fd = i % 2 ? links[i / 2].in : links[i / 2].out;
		if (fd >= 0)
			must("O_NONBLOCK", fcntl(fd, F_SETFL, O_NONBLOCK));
	}
}

/* ---- Waiting ----------------------------------------------------------------------------- */

/* How long an adaptive wait spins before it sleeps, in nanoseconds. */
#define SPIN_AT_MOST 100000

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Whether to spin once more; `began` is 0 when a wait begins. */
static inline bool spins(enum wait wait, uint64_t *began)
{
	if (wait == BLOCK)
		return false;
	if (wait == ADAPTIVE) {
		uint64_t time = now();
		if (!*began)
			*began = time;
		if (time - *began >= SPIN_AT_MOST)
			return false;
	}
	relax();
	return true;
}

/* After a call that did not go well: ends the process, or returns when the call is worth another try. */
static inline void wait_for_fd(const struct link *link, int fd, short events, uint64_t *began)
{
	if (errno == EINTR)
		return;
	if (errno != EAGAIN)
		must(events == POLLIN ? "receive" : "send", -1);
	if (spins(link->wait, began))
		return;
	struct pollfd ready = { .fd = fd, .events = events };
	MUST("poll", poll(&ready, 1, -1));
}

static inline long futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/*
 * Returns when the counter is no longer `seen`. What is slept on is a flag that says so: whoever sleeps sets
 * it and then looks at the counter once more; whoever changes the counter looks at the flag
 * afterwards, and takes it back before it wakes. So one of the two always sees the other.
 */
static inline void wait_for_change(enum wait wait, _Atomic uint32_t *counter, uint32_t seen, _Atomic uint32_t *sleeps)
{
	uint64_t began = 0;
	while (atomic_load(counter) == seen) {
		if (spins(wait, &began))
			continue;
		atomic_store(sleeps, 1);
		if (atomic_load(counter) != seen) {
			atomic_store(sleeps, 0);
			return;
		}
		if (futex(sleeps, FUTEX_WAIT, 1) < 0 && errno != EAGAIN && errno != EINTR)
			must("futex", -1);
	}
}

/* Wakes the other side, if it said that it sleeps. */
static inline void wake_if_asleep(_Atomic uint32_t *sleeps)
{
	if (atomic_load(sleeps) && atomic_exchange(sleeps, 0))
		must("futex", futex(sleeps, FUTEX_WAKE, 1));
}

/* ---- Sending and receiving --------------------------------------------------------------- */

/* Sends from the beginning of these bytes, and says how many. */
static inline size_t send_some(struct link *link, const void *bytes, size_t length)
{
	uint64_t began = 0;
	if (link->transport == SHARED_MEMORY) {
		struct ring *ring = link->sends;
		uint32_t turn = atomic_load_explicit(&ring->sent, memory_order_relaxed);
		/* Full while the receiver is all blocks behind. */
		wait_for_change(link->wait, &ring->received, turn - BLOCKS, &ring->sender_sleeps);
		size_t n = length < BLOCK_BYTES ? length : BLOCK_BYTES;
		memcpy(ring->blocks[turn % BLOCKS], bytes, n);
		ring->lengths[turn % BLOCKS].bytes = (uint32_t)n;
		atomic_store(&ring->sent, turn + 1);
		wake_if_asleep(&ring->receiver_sleeps);
		return n;
	}
	if (link->transport == MESSAGE_QUEUE) {
		while (mq_send((mqd_t)link->out, bytes, length, 0) != 0)
			wait_for_fd(link, link->out, POLLOUT, &began);
		return length;
	}
	for (;;) {
		ssize_t n = write(link->out, bytes, length);
		if (n >= 0)
			return (size_t)n;
		wait_for_fd(link, link->out, POLLOUT, &began);
	}
}

/* Receives into the beginning of this room, at least a byte, and says how many. */
static inline size_t receive_some(struct link *link, void *room, size_t length)
{
	uint64_t began = 0;
	if (link->transport == SHARED_MEMORY) {
		struct ring *ring = link->receives;
		uint32_t turn = atomic_load_explicit(&ring->received, memory_order_relaxed);
		wait_for_change(link->wait, &ring->sent, turn, &ring->receiver_sleeps);
		size_t n = ring->lengths[turn % BLOCKS].bytes;
		if (n > length)
			quit(FAILED, "a message of %zu bytes has no room", n);
		memcpy(room, ring->blocks[turn % BLOCKS], n);
		atomic_store(&ring->received, turn + 1);
		wake_if_asleep(&ring->sender_sleeps);
		return n;
	}
	for (;;) {
		ssize_t n = link->transport == MESSAGE_QUEUE
			? mq_receive((mqd_t)link->in, room, length, NULL)
			: read(link->in, room, length);
		if (n > 0)
			return (size_t)n;
		if (n == 0)
			quit(FAILED, "the stream ended");
		wait_for_fd(link, link->in, POLLIN, &began);
	}
}

static inline void send_all(struct link *link, const void *bytes, size_t length)
{
	for (size_t sent = 0; sent < length;)
		sent += send_some(link, (const char *)bytes + sent, length - sent);
}

static inline void receive_all(struct link *link, void *room, size_t length)
{
	for (size_t received = 0; received < length;)
		received += receive_some(link, (char *)room + received, length - received);
}

#endif
