// fullbore.h: moves bytes through Linux pipes at the speed of memory, and says what each fast way guarantees.
//
// Link with -lfullbore; `pkg-config --cflags --libs fullbore` prints all that is needed. Linux only.
// docs/c.md has an example, and says how to install the library.
//
// What holds for all functions:
//
// Results. A function returns a negative errno if it fails: -EINVAL for an argument that is wrong on every
// machine (NULL where an object or a place is needed, a wrong size, an unknown number), -EBADF for a file
// descriptor that is not open, and otherwise what the kernel said. Any other value is a result. A function
// that returns an int64_t returns a number of bytes or nanoseconds. A function that returns a pointer returns
// NULL for a wrong argument. errno itself is not set.
//
// Errors. `fullbore_error *error` may be NULL. If it is not, a function that fails says there on which side
// (source or sink), after how many bytes, and in words, what failed.
//
// Objects. Every `..._new` stores a pointer that is freed by `..._free`, and NULL if it fails. An object must
// not be used after it was freed, nor be freed while another thread uses it. File descriptors stay the caller's; they must stay open as long as the
// object exists.
//
// Threads. Different objects are independent. One object is used by one thread at a time; it may move to
// another thread between two calls. A call with an object that another call uses returns -EBUSY, and changes
// nothing. A fullbore_cancel and a fullbore_overview may be used by several threads at a time.
//
// fork(2). A child must not use, and must not free, the objects of its parent.
//
// Signals. SIGPIPE is never raised: it is blocked in the calling thread for the time of a call, and one that
// the call has caused is taken away. A handler of another signal runs, and the call then goes on; use a
// fullbore_cancel to end it.
//
// Panics. A defect of the library is reported as -ENOTRECOVERABLE. No panic and no exception leaves a
// function.
//
// Versions. Options begin with their size, so that they can grow, and structures that the library lends may
// grow at their end. The soname, libfullbore.so.0.1, changes with every release that breaks a program, and is
// the version of each symbol.


#ifndef FULLBORE_H
#define FULLBORE_H

#include <stddef.h>
#include <stdint.h>

// The version of this header, as numbers and as text. fullbore_version() returns that of the library that is running.
#define FULLBORE_VERSION_MAJOR 0
#define FULLBORE_VERSION_MINOR 1
#define FULLBORE_VERSION_PATCH 0
#define FULLBORE_VERSION "0.1.0"

// For `pipe_size` in options: leave the output pipe as it is.
#define FULLBORE_PIPE_SIZE_KEEP SIZE_MAX

// The side of an error: none, because no bytes were to be moved.
#define FULLBORE_SIDE_NONE 0

// The side of an error: the one that bytes are read from.
#define FULLBORE_SIDE_SOURCE 1

// The side of an error: the one that bytes are written to.
#define FULLBORE_SIDE_SINK 2

// The cause of an error: a system call failed, and the code is its errno.
#define FULLBORE_CAUSE_SYSTEM 1

// The cause of an error: an argument is wrong on every machine (-EINVAL, or -EBADF for a file
// descriptor that is not open).
#define FULLBORE_CAUSE_ARGUMENT 2

// The cause of an error: a fullbore_cancel (-ECANCELED) or a deadline (-ETIMEDOUT) ended the call.
#define FULLBORE_CAUSE_STOPPED 3

// The cause of an error: this kernel, or this user on it, does not offer what was asked for
// (-EOPNOTSUPP).
#define FULLBORE_CAUSE_UNSUPPORTED 4

// The cause of an error: the object is in use by another call (-EBUSY).
#define FULLBORE_CAUSE_IN_USE 5

// The cause of an error: there is no such process, or it has ended (-ESRCH).
#define FULLBORE_CAUSE_NOT_FOUND 6

// The cause of an error: a defect of this library (-ENOTRECOVERABLE). It has printed what happened to
// stderr. Free the object; what it holds is not to be relied on.
#define FULLBORE_CAUSE_DEFECT 7

// Sleep in the call itself, as a blocking file descriptor does. This is the default.
#define FULLBORE_WAIT_BLOCK 0

// Try without waiting, and sleep in poll(2) until another try is worthwhile.
#define FULLBORE_WAIT_POLL 1

// Try again and again. This uses a whole CPU. It is the fastest if a CPU is idle, and the slowest if
// the other side has to run on the same CPU.
#define FULLBORE_WAIT_SPIN 2

// Spin as long as recent waits have been short, at most 100 microseconds at a time, then sleep.
#define FULLBORE_WAIT_ADAPTIVE 3

// A flag of all options: a call that would have to wait fails with -EAGAIN instead, or, for a
// fullbore_transfer and a fullbore_tee, returns that it would wait.
#define FULLBORE_FLAG_NONBLOCKING 1

// A flag of fullbore_producer_options, for FULLBORE_WAY_AUTO, and of fullbore_consumer_options: share
// memory with the other end of the pipe instead of using the pipe, if that end is one of this library,
// allows it too, and belongs to the same user, and if no other process has the pipe open. Bytes arrive as
// without it, but poll(2) does not see them. It has no effect with FULLBORE_FLAG_NONBLOCKING.
#define FULLBORE_FLAG_SHARED 32

// Nothing kept a pipe from growing as far as was asked.
#define FULLBORE_LIMIT_NONE 0

// /proc/sys/fs/pipe-max-size kept a pipe from growing further; `limit_is` is its value in bytes.
#define FULLBORE_LIMIT_PIPE_MAX_SIZE 1

// /proc/sys/fs/pipe-user-pages-soft (or -hard), which limits all pipes of a user together, kept a pipe
// from growing further; `limit_is` is the soft limit in pages, or -1 if it cannot be read.
#define FULLBORE_LIMIT_PIPE_USER_PAGES 2

// The bytes in the pipe would not fit.
#define FULLBORE_LIMIT_BUSY 3

// Another limit, which this version has no name for.
#define FULLBORE_LIMIT_OTHER 4

// The way in which a producer sends: the one that suits the file. A pipe gets fresh pages or is sent
// through a socket, anything else is written to.
#define FULLBORE_WAY_AUTO 0

// The bytes are copied by write(2). Any file.
#define FULLBORE_WAY_COPY 1

// The bytes are copied into a socket, and spliced from there into the pipe. Pipes only.
#define FULLBORE_WAY_SOCKET 2

// vmsplice(2) sends pages that are never written to again. Pipes only.
#define FULLBORE_WAY_FRESH 3

// vmsplice(2) sends pages that are used again once the pipe no longer refers to them. Pipes only, and
// only right if every reader of the pipe COPIES the bytes out of it, as read(2) does, or drops them. A
// reader that moves them on by reference, as splice(2) and tee(2) do and newer versions of cat, tee and
// pv, passes on bytes that change later.
#define FULLBORE_WAY_RECYCLE 4

// References to pages that never change are sent. Only a fullbore_repeat sends in this way.
#define FULLBORE_WAY_REPEAT 5

// Another way, which this version has no name for.
#define FULLBORE_WAY_OTHER 6

// The consumer reads the bytes in memory that it shares with the producer, which FULLBORE_FLAG_SHARED allows.
// It is a result, and not an option.
#define FULLBORE_WAY_RING 7

// A flag of fullbore_producer_options: do not ask for huge pages.
#define FULLBORE_FLAG_NO_HUGE_PAGES 2



// A reader gets the bytes as they were when they were moved, whatever any process does afterwards. This
// is the default.
#define FULLBORE_GUARANTEE_SNAPSHOT 0

// A reader may get what the source's pages hold when it reads. This is faster, and right if no process
// changes the source's bytes before they have been read.
#define FULLBORE_GUARANTEE_REFERENCE 1

// A run ended because the source has no more bytes; for a fullbore_tee also because no sink is left.
#define FULLBORE_ENDED_AT_END 0

// A run ended because the limit was reached.
#define FULLBORE_ENDED_AT_LIMIT 1

// A run was ended by a fullbore_cancel, or by the progress function.
#define FULLBORE_ENDED_CANCELLED 2

// A run ended because the deadline passed.
#define FULLBORE_ENDED_TIMED_OUT 3

// A run ended because there is nothing to read yet, with FULLBORE_FLAG_NONBLOCKING.
#define FULLBORE_ENDED_SOURCE_WOULD_BLOCK 4

// A run ended because there is no room to write, with FULLBORE_FLAG_NONBLOCKING.
#define FULLBORE_ENDED_SINK_WOULD_BLOCK 5

// A run ended for another reason, which this version has no name for.
#define FULLBORE_ENDED_OTHER 6

// Bytes are moved by copy_file_range(2).
#define FULLBORE_METHOD_COPY_FILE_RANGE 1

// Bytes are moved by splice(2).
#define FULLBORE_METHOD_SPLICE 2

// Bytes are moved by two splice(2), with a pipe of the library's own between them.
#define FULLBORE_METHOD_SPLICE_THROUGH 3

// Bytes are moved by sendfile(2).
#define FULLBORE_METHOD_SENDFILE 4

// Bytes are read into fresh pages, which are given to the pipe.
#define FULLBORE_METHOD_FRESH 5

// Bytes are read, copied into a socket and spliced from there into the pipe.
#define FULLBORE_METHOD_SOCKET 6

// Bytes are moved by read(2) and write(2).
#define FULLBORE_METHOD_READ_WRITE 7

// Bytes are moved in another way, which this version has no name for.
#define FULLBORE_METHOD_OTHER 8

// A file is a pipe or a FIFO.
#define FULLBORE_KIND_PIPE 1

// A file is a regular file.
#define FULLBORE_KIND_REGULAR 2

// A file is a block device.
#define FULLBORE_KIND_BLOCK 3

// A file is /dev/null.
#define FULLBORE_KIND_NULL 4

// A file is another character device.
#define FULLBORE_KIND_CHAR 5

// A file is a Unix socket of type stream.
#define FULLBORE_KIND_UNIX_STREAM 6

// A file is a TCP socket.
#define FULLBORE_KIND_TCP 7

// A file is of any other kind.
#define FULLBORE_KIND_OTHER 8

// A flag of fullbore_transfer_options: `source_offset` is where to start reading, and the position of
// the source is left alone.
#define FULLBORE_FLAG_AT_SOURCE_OFFSET 4

// A flag of fullbore_transfer_options: `sink_offset` is where to start writing, and the position of the
// sink is left alone.
#define FULLBORE_FLAG_AT_SINK_OFFSET 8

// A flag of fullbore_transfer_options: let all bytes pass through the memory of this process, and show
// them to the progress function.
#define FULLBORE_FLAG_VISIBLE 16

// A flag of fullbore_transfer_options: move bytes by read(2) and write(2) only.
#define FULLBORE_FLAG_PLAIN 32

// An error of one sink makes the whole tee fail.
#define FULLBORE_ON_ERROR_FAIL_ALL 0

// A sink with an error is dropped, and its error is kept.
#define FULLBORE_ON_ERROR_DROP 1

// A sink with an error is dropped, and this does not count as an error.
#define FULLBORE_ON_ERROR_IGNORE 2

// Ends the calls of other objects, from another thread or from a signal handler. It is passed to them
// by their options.
typedef struct fullbore_cancel fullbore_cancel;

// Reads bytes from any file descriptor through a buffer. It never resizes the pipe that it reads from.
typedef struct fullbore_consumer fullbore_consumer;

// Sends bytes from memory to any file descriptor, as fast as the guarantee of its way allows.
//
// The reader gets the bytes as they were when they were sent, whatever it does with them, except by
// FULLBORE_WAY_RECYCLE.
typedef struct fullbore_producer fullbore_producer;

// Sends a pattern again and again, into a pipe from pages that never change.
typedef struct fullbore_repeat fullbore_repeat;

// Moves bytes from one file descriptor to many. A sink that reads nothing holds the others back only once
// its own pipe is full.
typedef struct fullbore_tee fullbore_tee;

// Moves bytes from any file descriptor to any other.
typedef struct fullbore_transfer fullbore_transfer;

// What failed.
//
// A function that takes a pointer to one of these fills it in when it fails, and leaves it alone when
// it succeeds. The pointer may be NULL. It needs no preparation, and nothing in it has to be freed. Its
// size is 256 bytes in all versions.
typedef struct fullbore_error {
  // The code that the function returned: a negative errno.
  int code;
  // The side that failed: FULLBORE_SIDE_...
  int32_t side;
  // The cause: FULLBORE_CAUSE_...
  int32_t cause;
  // The number of the sink that failed, from 0, for a fullbore_tee; otherwise -1.
  int32_t sink;
  // Bytes that the object had moved before the error. They are not lost.
  uint64_t moved;
  // What failed, in words, as one line of UTF-8 that ends with a NUL. It is cut off if it is too long.
  char message[232];
} fullbore_error;

// The result of growing a pipe.
typedef struct fullbore_growth {
  // Capacity in bytes before.
  uint64_t before;
  // Capacity in bytes now.
  uint64_t after;
  // The value of the limit; -1 if it has none.
  int64_t limit_is;
  // The limit that kept the pipe below what was asked for: FULLBORE_LIMIT_...
  int32_t limit;
  // 0.
  int32_t reserved;
} fullbore_growth;

// The identity of a pipe: equal for two file descriptors only if they are of the same pipe, in any two
// processes.
typedef struct fullbore_pipe_identity {
  // The device number of its file system, as in `struct stat`.
  uint64_t device;
  // Its inode number in that file system.
  uint64_t inode;
} fullbore_pipe_identity;

// The options of a fullbore_producer and a fullbore_repeat. Set `size` to `sizeof options` and all else
// to 0, then what is to differ from the default: `fullbore_producer_options o = {.size = sizeof o}`.
typedef struct fullbore_producer_options {
  // sizeof(fullbore_producer_options).
  size_t size;
  // The most bytes that one system call sends, and that one fullbore_producer_reserve lends. 0 is
  // the default: 512 KiB, and 256 KiB for FULLBORE_WAY_RECYCLE.
  size_t chunk;
  // The bytes of memory that FULLBORE_WAY_RECYCLE uses in rotation. 0 is the default: the capacity of
  // the pipe and two chunks.
  size_t memory;
  // The capacity in bytes that an output pipe is grown to, as far as this user may, once more than
  // 64 KiB are to be sent. 0 is the default: 1 MiB, and less in a small memory cgroup.
  // FULLBORE_PIPE_SIZE_KEEP leaves the pipe as it is. 64 pipes of 1 MiB use up what all pipes of an
  // unprivileged user may have together.
  size_t pipe_size;
  // The time at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC, as
  // fullbore_deadline_in returns it. 0 is none.
  int64_t deadline;
  // Ends calls with -ECANCELED. NULL is none. It may be freed once the object has been created.
  const struct fullbore_cancel *cancel;
  // FULLBORE_WAY_...; a fullbore_repeat takes only FULLBORE_WAY_AUTO.
  int32_t way;
  // What to do while the output is full: FULLBORE_WAIT_...
  int32_t wait;
  // FULLBORE_FLAG_NONBLOCKING, FULLBORE_FLAG_NO_HUGE_PAGES, FULLBORE_FLAG_SHARED.
  uint32_t flags;
  // 0.
  uint32_t reserved;
} fullbore_producer_options;

// The options of a fullbore_consumer. Set `size` to `sizeof options` and all else to 0, then what is to
// differ from the default.
typedef struct fullbore_consumer_options {
  // sizeof(fullbore_consumer_options).
  size_t size;
  // The size of the buffer in bytes. 0 is the default: half of the second-level cache.
  size_t buffer;
  // The time at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC, as
  // fullbore_deadline_in returns it. 0 is none.
  int64_t deadline;
  // What to do while there is nothing to read: FULLBORE_WAIT_...
  int32_t wait;
  // FULLBORE_FLAG_NONBLOCKING, FULLBORE_FLAG_SHARED.
  uint32_t flags;
  // Ends calls with -ECANCELED when it is cancelled. NULL is none. It may be freed before the consumer.
  const struct fullbore_cancel *cancel;
} fullbore_consumer_options;

// The options of a fullbore_transfer and a fullbore_tee. Set `size` to `sizeof options` and all else to
// 0, then what is to differ from the default.
typedef struct fullbore_transfer_options {
  // sizeof(fullbore_transfer_options).
  size_t size;
  // The most bytes to move; no more than that are taken from the source. 0 is no limit.
  uint64_t limit;
  // With FULLBORE_FLAG_AT_SOURCE_OFFSET: where to start reading. Not for a fullbore_tee.
  uint64_t source_offset;
  // With FULLBORE_FLAG_AT_SINK_OFFSET: where to start writing. Not for a fullbore_tee.
  uint64_t sink_offset;
  // The most bytes that one system call moves. 0 is the default, which depends on the method.
  size_t chunk;
  // The capacity in bytes that output pipes, and pipes of the library's own, are grown to, as far as
  // this user may. 0 is the default: 1 MiB, and less in a small memory cgroup.
  // FULLBORE_PIPE_SIZE_KEEP leaves them as they are.
  size_t pipe_size;
  // The time at which a run ends with FULLBORE_ENDED_TIMED_OUT, in nanoseconds of CLOCK_MONOTONIC, as
  // fullbore_deadline_in returns it. 0 is none.
  int64_t deadline;
  // Ends a run with FULLBORE_ENDED_CANCELLED. NULL is none. It may be freed once the object has been
  // created.
  const struct fullbore_cancel *cancel;
  // FULLBORE_GUARANTEE_...; for a fullbore_tee only FULLBORE_GUARANTEE_SNAPSHOT.
  int32_t guarantee;
  // What to do while there is nothing to read or no room to write: FULLBORE_WAIT_...
  int32_t wait;
  // FULLBORE_FLAG_NONBLOCKING, FULLBORE_FLAG_AT_SOURCE_OFFSET, FULLBORE_FLAG_AT_SINK_OFFSET,
  // FULLBORE_FLAG_VISIBLE, FULLBORE_FLAG_PLAIN; for a fullbore_tee only FULLBORE_FLAG_NONBLOCKING and
  // FULLBORE_FLAG_PLAIN.
  uint32_t flags;
  // 0.
  uint32_t reserved;
} fullbore_transfer_options;

// What has happened so far in a transfer. Later versions may add to its end.
typedef struct fullbore_progress {
  // Bytes that have arrived in total.
  uint64_t bytes;
  // Bytes that arrived with this step.
  uint64_t step;
  // The bytes of this step themselves, with FULLBORE_FLAG_VISIBLE; otherwise NULL. They are lent for the
  // time of the call.
  const void *seen;
  // The number of bytes in `seen`.
  size_t seen_len;
  // How they were moved: FULLBORE_METHOD_...
  int32_t method;
} fullbore_progress;

// A function that is called after each step of a transfer that moved bytes, in the thread that runs the
// transfer, with the pointer that was given with it. It returns 0 to continue, anything else to stop. It
// must return: no longjmp and no C++ exception may leave it. Calls with the same transfer fail in it with
// -EBUSY. SIGPIPE is blocked in it.
typedef int (*fullbore_progress_fn)(void *user, const struct fullbore_progress *progress);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library that is running, such as "0.1.0". It is static: do not free it.
//
// Threads: any.
const char *fullbore_version(void);

// Creates a cancel, and stores it in `*cancel`. Free it with fullbore_cancel_free.
//
// Returns 0; -EMFILE, -ENFILE or -ENOMEM as eventfd(2); -EINVAL if `cancel` is NULL.
// Threads: any.
int fullbore_cancel_new(struct fullbore_cancel **cancel, struct fullbore_error *error);

// Ends all calls of the objects that have this cancel, and refuses further ones, for good. They fail
// with -ECANCELED, or return FULLBORE_ENDED_CANCELLED.
//
// Returns 0, or -EINVAL if `cancel` is NULL.
// Threads: any, at any time; also in a signal handler, where it leaves errno alone.
int fullbore_cancel_now(const struct fullbore_cancel *cancel);

// Returns 1 if fullbore_cancel_now was called, 0 if it was not, or -EINVAL if `cancel` is NULL.
//
// Threads: any, at any time.
int fullbore_cancel_is_cancelled(const struct fullbore_cancel *cancel);

// Frees a cancel. Objects that were created with it keep what they need of it, so it may be freed
// before they are. NULL is allowed.
//
// Threads: any, while no other call uses this cancel.
void fullbore_cancel_free(struct fullbore_cancel *cancel);

// Returns the time that is `nanoseconds` from now, in nanoseconds of CLOCK_MONOTONIC, as deadlines are
// given; never 0, which is no deadline. A negative number is a time that has passed.
//
// Threads: any.
int64_t fullbore_deadline_in(int64_t nanoseconds);

// Creates a pipe with pipe2(O_CLOEXEC), and grows it up to `bytes` as far as this user may; 0 leaves it
// as it is, at 64 KiB with pages of 4 KiB.
//
// `fds` points to room for two: `fds[0]` is set to the end that bytes are read from, `fds[1]` to the one
// that they are written to.
// The caller closes both. `growth` gets the capacity that was reached, and may be NULL.
//
// Returns 0; -EMFILE or -ENFILE as pipe2(2); -EINVAL if `fds` is NULL.
// Threads: any.
int fullbore_pipe(int *fds,
                  size_t bytes,
                  struct fullbore_growth *growth,
                  struct fullbore_error *error);

// Returns 1 if `pipe` is a pipe or a FIFO, 0 if it is not, or -EBADF if it is not open.
//
// Threads: any.
int fullbore_pipe_is_pipe(int pipe, struct fullbore_error *error);

// Returns 1 if `pipe` can be written to, 0 if it cannot; -EBADF if it is not open; -EINVAL if it is not
// a pipe.
//
// Threads: any.
int fullbore_pipe_is_writer(int pipe,
                            struct fullbore_error *error);

// Returns the capacity of a pipe in bytes (F_GETPIPE_SZ); -EBADF if `pipe` is not open; -EINVAL if it is
// not a pipe.
//
// Threads: any.
int64_t fullbore_pipe_capacity(int pipe,
                               struct fullbore_error *error);

// Returns the capacity of a pipe in slots: the number of runs of bytes that it can refer to, each at
// most a page or compound page. -EBADF if `pipe` is not open; -EINVAL if it is not a pipe.
//
// Threads: any.
int64_t fullbore_pipe_slots(int pipe,
                            struct fullbore_error *error);

// Returns the number of bytes that are in a pipe now (FIONREAD), from either end; -EBADF if `pipe` is
// not open; -EINVAL if it is not a pipe.
//
// Threads: any.
int64_t fullbore_pipe_queued(int pipe,
                             struct fullbore_error *error);

// Stores the identity of a pipe in `*identity`.
//
// Returns 0; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe, or `identity` is NULL.
// Threads: any.
int fullbore_pipe_identify(int pipe,
                           struct fullbore_pipe_identity *identity,
                           struct fullbore_error *error);

// Sets the capacity of a pipe to `bytes`, which the kernel rounds up to a power of two of pages
// (F_SETPIPE_SZ).
//
// Returns the new capacity in bytes; -EPERM above the limits of this user; -EBUSY if the bytes in the
// pipe use more slots than that; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe, and for 0
// and for 2 GiB or more.
// Threads: any.
int64_t fullbore_pipe_resize(int pipe,
                             size_t bytes,
                             struct fullbore_error *error);

// Grows a pipe up to `bytes` as far as this user may, and never shrinks it. A limit is not an error:
// `growth`, which may be NULL, gets the capacity that was reached, and the limit.
//
// Grow a pipe only if you write to it: a writer on the other side may use the capacity to find out when
// a page is free. All pipes of an unprivileged user together may have 64 MiB
// (/proc/sys/fs/pipe-user-pages-soft); beyond that, new pipes of all programs of this user have one or
// two pages.
//
// Returns 0; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe; -ENOMEM.
// Threads: any.
int fullbore_pipe_grow(int pipe,
                       size_t bytes,
                       struct fullbore_growth *growth,
                       struct fullbore_error *error);

// Creates a producer that sends to `sink`, and stores it in `*producer`. Free it with
// fullbore_producer_free.
//
// `sink` stays the caller's, and has to stay open as long as the producer exists. A producer that sends
// to a pipe keeps a duplicate of it: the pipe's reader sees no end of file before the producer has
// finished or is freed. `options` may be NULL, which is all defaults.
//
// Returns 0; -EBADF if `sink` is not open, or is the read end of a pipe; -EINVAL for a way that needs a
// pipe if `sink` is not one, for options that are wrong, and if `producer` is NULL; -ENOMEM.
// Threads: any.
int fullbore_producer_new(int sink,
                          const struct fullbore_producer_options *options,
                          struct fullbore_producer **producer,
                          struct fullbore_error *error);

// Gathers `len` bytes of `memory`, and sends them in chunks: the bytes may be sent by this call or by a
// later one. `memory` may be used again when it returns.
//
// Returns how many bytes were accepted: all of them, unless an error comes after a part of them, which
// the next call then returns. Bytes that were accepted must not be written again.
// -EPIPE if no reader is left, and other errors of write(2) and vmsplice(2), with FULLBORE_SIDE_SINK;
// -EAGAIN with FULLBORE_FLAG_NONBLOCKING; -ETIMEDOUT; -ECANCELED; -EINVAL if `producer` or `memory` is NULL,
// `len` is more than SSIZE_MAX, or the producer has finished; -EBUSY while another call uses it.
// Threads: one at a time for one producer.
int64_t fullbore_producer_write(struct fullbore_producer *producer,
                                const void *memory,
                                size_t len,
                                struct fullbore_error *error);

// Lends `len` bytes of memory to fill, and stores their address in `*memory`. What is in them at first
// is unspecified. Bytes that were gathered by fullbore_producer_write are sent first.
//
// The memory is lent until the next call with this producer, other than those that only return a
// number. fullbore_producer_commit sends it.
//
// Returns 0; -EINVAL for more bytes than fullbore_producer_chunk, if an argument is NULL, and if the
// producer has finished; -ENOMEM; otherwise as fullbore_producer_write.
// Threads: one at a time for one producer.
int fullbore_producer_reserve(struct fullbore_producer *producer,
                              size_t len,
                              void **memory,
                              struct fullbore_error *error);

// Sends the first `len` bytes of the memory that fullbore_producer_reserve lent last. The memory must
// not be used any more, even if this fails.
//
// Returns 0; -EINVAL for more bytes than were lent, if `producer` is NULL, and if it has finished;
// otherwise as fullbore_producer_write. After an error what was not sent stays in the producer and is
// sent first by the next call: do not commit it again.
// Threads: one at a time for one producer.
int fullbore_producer_commit(struct fullbore_producer *producer,
                             size_t len,
                             struct fullbore_error *error);

// Sends what was gathered.
//
// Returns 0; -EINVAL if `producer` is NULL or has finished; otherwise as fullbore_producer_write. With
// FULLBORE_FLAG_NONBLOCKING, wait after -EAGAIN until the sink can be written to (poll(2)), and call it
// again.
// Threads: one at a time for one producer.
int fullbore_producer_flush(struct fullbore_producer *producer,
                            struct fullbore_error *error);

// Sends what is left, and ends the producer: it closes its duplicate of the sink, and only the
// functions that return a number, and fullbore_producer_free, are then allowed. By FULLBORE_WAY_RECYCLE
// it returns when the last byte has been read.
//
// Returns 0 if all bytes were sent; -EINVAL if `producer` is NULL or has finished; otherwise as
// fullbore_producer_write. After an error the producer has not finished, and keeps what was not sent:
// call this again to continue, or fullbore_producer_free to lose it.
// Threads: one at a time for one producer.
int fullbore_producer_finish(struct fullbore_producer *producer,
                             struct fullbore_error *error);

// Stores the address and the length of the bytes that were accepted and not sent yet. They are lent as
// by fullbore_producer_reserve. None are left after fullbore_producer_finish.
//
// Returns 0; -EINVAL if an argument is NULL; -EBUSY while another call uses the producer.
// Threads: one at a time for one producer.
int fullbore_producer_unsent(struct fullbore_producer *producer,
                             const void **memory,
                             size_t *len,
                             struct fullbore_error *error);

// Sets the time at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `producer` is NULL or has finished, or `deadline` is negative; -EBUSY while
// another call uses the producer.
// Threads: one at a time for one producer.
int fullbore_producer_set_deadline(struct fullbore_producer *producer,
                                   int64_t deadline,
                                   struct fullbore_error *error);

// Returns the number of bytes that were sent so far; -EINVAL if `producer` is NULL; -EBUSY while another
// call uses it.
//
// Threads: one at a time for one producer.
int64_t fullbore_producer_sent(struct fullbore_producer *producer);

// Returns the number of system calls that were made to send bytes; -EINVAL if `producer` is NULL; -EBUSY
// while another call uses it.
//
// Threads: one at a time for one producer.
int64_t fullbore_producer_calls(struct fullbore_producer *producer);

// Returns the way in which bytes are sent now, FULLBORE_WAY_...; it can change when the kernel refuses
// one, or the consumer shares its memory. -EINVAL if `producer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one producer.
int fullbore_producer_way(struct fullbore_producer *producer);

// Returns the size of a chunk in bytes: the most that one fullbore_producer_reserve lends. -EINVAL if
// `producer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one producer.
int64_t fullbore_producer_chunk(struct fullbore_producer *producer);

// Frees a producer. Like fclose(3), it first sends what is left, but without a way to return an error:
// call fullbore_producer_finish before. Nothing is sent if a call has returned an error other than
// -EAGAIN, -ECANCELED and -ETIMEDOUT since bytes were last passed in. NULL is allowed.
//
// Threads: any, once no other call uses this producer.
void fullbore_producer_free(struct fullbore_producer *producer);

// Creates a repeat that sends the `len` bytes of `pattern` to `sink`, and stores it in `*repeat`. The
// pattern is copied. Free it with fullbore_repeat_free.
//
// `sink` stays the caller's, and has to stay open as long as the repeat exists. A repeat that sends to a
// pipe keeps a duplicate of it: the pipe's reader sees no end of file before it is freed. `options` may
// be NULL; `way` in it has to be FULLBORE_WAY_AUTO, and `chunk` and `memory` have no effect.
//
// Returns 0; -EBADF if `sink` is not open, or is the read end of a pipe; -EINVAL for an empty pattern,
// for options that are wrong, and if `pattern` or `repeat` is NULL; -ENOMEM.
// Threads: any.
int fullbore_repeat_new(int sink,
                        const void *pattern,
                        size_t len,
                        const struct fullbore_producer_options *options,
                        struct fullbore_repeat **repeat,
                        struct fullbore_error *error);

// Sends `len` more bytes, starting where the last call stopped in the pattern.
//
// Returns 0; -EPIPE if no reader is left, and other errors of write(2), tee(2) and splice(2), with
// FULLBORE_SIDE_SINK; -EAGAIN with FULLBORE_FLAG_NONBLOCKING; -ETIMEDOUT; -ECANCELED; -EINVAL if `repeat` is
// NULL; -EBUSY while another call uses it. What was sent before an error is counted by
// fullbore_repeat_sent, and the next call continues from there. To send until the reader has gone, pass
// UINT64_MAX.
// Threads: one at a time for one repeat.
int fullbore_repeat_send(struct fullbore_repeat *repeat,
                         uint64_t len,
                         struct fullbore_error *error);

// Sends as many bytes as one system call can, at most `len`.
//
// Returns how many were sent; otherwise as fullbore_repeat_send.
// Threads: one at a time for one repeat.
int64_t fullbore_repeat_send_some(struct fullbore_repeat *repeat,
                                  uint64_t len,
                                  struct fullbore_error *error);

// Sets the time at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `repeat` is NULL or `deadline` is negative; -EBUSY while another call uses it.
// Threads: one at a time for one repeat.
int fullbore_repeat_set_deadline(struct fullbore_repeat *repeat,
                                 int64_t deadline,
                                 struct fullbore_error *error);

// Returns the number of bytes that were sent so far; -EINVAL if `repeat` is NULL; -EBUSY while another
// call uses it.
//
// Threads: one at a time for one repeat.
int64_t fullbore_repeat_sent(struct fullbore_repeat *repeat);

// Returns the number of system calls that were made to send bytes; -EINVAL if `repeat` is NULL; -EBUSY
// while another call uses it.
//
// Threads: one at a time for one repeat.
int64_t fullbore_repeat_calls(struct fullbore_repeat *repeat);

// Returns FULLBORE_WAY_REPEAT, or FULLBORE_WAY_COPY if the output cannot be given references; -EINVAL if
// `repeat` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one repeat.
int fullbore_repeat_way(struct fullbore_repeat *repeat);

// Frees a repeat. Sends nothing. NULL is allowed.
//
// Threads: any, once no other call uses this repeat.
void fullbore_repeat_free(struct fullbore_repeat *repeat);

// Creates a consumer that reads from `source`, and stores it in `*consumer`. Free it with
// fullbore_consumer_free.
//
// `source` stays the caller's, and has to stay open as long as the consumer exists. `options` may be
// NULL, which is all defaults.
//
// Returns 0; -EBADF if `source` is not open; -EINVAL for options that are wrong, and if `consumer` is
// NULL; -ENOMEM.
// Threads: any.
int fullbore_consumer_new(int source,
                          const struct fullbore_consumer_options *options,
                          struct fullbore_consumer **consumer,
                          struct fullbore_error *error);

// Reads up to `len` bytes into `memory`.
//
// Returns how many bytes were read, which may be fewer than `len`; 0 at the end, when all writers have
// closed, and if `len` is 0. Errors of read(2), with FULLBORE_SIDE_SOURCE; -EAGAIN with
// FULLBORE_FLAG_NONBLOCKING if there is nothing to read yet; -ETIMEDOUT; -ECANCELED after the `cancel` of the
// options was cancelled; -EINVAL if `consumer` or `memory` is NULL or `len` is more than SSIZE_MAX; -EBUSY
// while another call uses the consumer. A signal does not interrupt it.
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_read(struct fullbore_consumer *consumer,
                               void *memory,
                               size_t len,
                               struct fullbore_error *error);

// Lends the bytes that are in the buffer, and stores their address in `*memory` and their number in
// `*len`. If there are none, it reads some first, and so `*len` is 0 only at the end. They stay in the
// buffer until fullbore_consumer_consume.
//
// The memory is lent until the next call with this consumer, other than those that only return a number.
//
// Returns 0; -EINVAL if an argument is NULL; otherwise as fullbore_consumer_read.
// Threads: one at a time for one consumer.
int fullbore_consumer_fill(struct fullbore_consumer *consumer,
                           const void **memory,
                           size_t *len,
                           struct fullbore_error *error);

// Takes the first `len` bytes out of the buffer.
//
// Returns 0; -EINVAL for more bytes than are in the buffer, and if `consumer` is NULL; -EBUSY while
// another call uses it.
// Threads: one at a time for one consumer.
int fullbore_consumer_consume(struct fullbore_consumer *consumer,
                              size_t len,
                              struct fullbore_error *error);

// Discards the next `len` bytes, or all up to the end if there are fewer. The bytes in a pipe are
// discarded without being copied.
//
// Returns how many were discarded; otherwise as fullbore_consumer_read. Bytes that were discarded before
// an error are lost.
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_discard(struct fullbore_consumer *consumer,
                                  uint64_t len,
                                  struct fullbore_error *error);

// Sets the time at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `consumer` is NULL or `deadline` is negative; -EBUSY while another call uses it.
// Threads: one at a time for one consumer.
int fullbore_consumer_set_deadline(struct fullbore_consumer *consumer,
                                   int64_t deadline,
                                   struct fullbore_error *error);

// Returns the number of bytes that were taken from the source so far, including those in the buffer;
// -EINVAL if `consumer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_taken(struct fullbore_consumer *consumer);

// Returns the number of bytes that are in the buffer: fullbore_consumer_fill lends them without reading.
// -EINVAL if `consumer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_buffered(struct fullbore_consumer *consumer);

// Returns the number of system calls that were made to read or discard bytes; -EINVAL if `consumer` is
// NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_calls(struct fullbore_consumer *consumer);

// Frees a consumer. Bytes in its buffer are lost. NULL is allowed.
//
// Threads: any, once no other call uses this consumer.
void fullbore_consumer_free(struct fullbore_consumer *consumer);

// Copies all bytes of `source` to `sink`, with the default options of a fullbore_transfer.
//
// Returns how many bytes there were; errors of the side that `error` names, with the number of bytes that
// had arrived; -EBADF if one is not open; -EINVAL if both are the same file or pipe.
// Threads: any.
int64_t fullbore_copy(int source,
                      int sink,
                      struct fullbore_error *error);

// Closes `fd` with close(2), and returns its error: NFS, FUSE and file systems with quotas may report a
// failed write only here. The descriptor is closed in any case.
//
// Returns 0; -EIO, -ENOSPC or -EDQUOT as close(2); -EBADF if `fd` is not open.
// Threads: any.
int fullbore_close(int fd,
                   struct fullbore_error *error);

// Creates a transfer from `source` to `sink`, and stores it in `*transfer`. Nothing is moved yet. Free it
// with fullbore_transfer_free.
//
// Both file descriptors stay the caller's, and have to stay open as long as the transfer exists.
// `options` may be NULL, which is all defaults.
//
// Returns 0; -EBADF if a file descriptor is not open; -EINVAL for options that are wrong, and if
// `transfer` is NULL.
// Threads: any.
int fullbore_transfer_new(int source,
                          int sink,
                          const struct fullbore_transfer_options *options,
                          struct fullbore_transfer **transfer,
                          struct fullbore_error *error);

// Moves bytes until the source ends, the limit is reached, or the transfer cannot continue.
//
// `progress` is called after each step, with `user`; it may be NULL. After a run that was cancelled, timed
// out, would have to wait, or has reached a limit that was then raised, another run continues.
//
// Returns why it ended, FULLBORE_ENDED_...; the error of a side, which `error` names; -EINVAL if both are
// the same file or pipe, or if `transfer` is NULL; -EBUSY while another call uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_run(struct fullbore_transfer *transfer,
                          fullbore_progress_fn progress,
                          void *user,
                          struct fullbore_error *error);

// Sets the most bytes to move, over all runs. Unlike in the options, 0 means that no byte is to be moved.
//
// Returns 0; -EINVAL if `transfer` is NULL, or its bytes have been taken back; -EBUSY while another call
// uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_set_limit(struct fullbore_transfer *transfer,
                                uint64_t limit,
                                struct fullbore_error *error);

// Sets the time at which a run ends, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `transfer` is NULL, its bytes have been taken back, or `deadline` is negative;
// -EBUSY while another call uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_set_deadline(struct fullbore_transfer *transfer,
                                   int64_t deadline,
                                   struct fullbore_error *error);

// Sets another cancel, so that a transfer that was cancelled can continue. `cancel` may be freed
// afterwards.
//
// Returns 0; -EINVAL if an argument is NULL, or the bytes of the transfer have been taken back; -EBUSY
// while another call uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_set_cancel(struct fullbore_transfer *transfer,
                                 const struct fullbore_cancel *cancel,
                                 struct fullbore_error *error);

// Ends a transfer, and stores the address and the length of the bytes that were taken from the source and
// have not arrived at the sink, in order. There are some only if the sink failed or the transfer was
// stopped early. They are lent until the transfer is freed.
//
// Returns 0; -EINVAL if an argument is NULL, or they have been taken back before; -EBUSY while another call
// uses the transfer; the error of read(2) if they are in a pipe of the library's own, with
// FULLBORE_SIDE_SOURCE.
// Threads: one at a time for one transfer.
int fullbore_transfer_take_back(struct fullbore_transfer *transfer,
                                const void **memory,
                                size_t *len,
                                struct fullbore_error *error);

// Returns the number of bytes that have arrived at the sink, over all runs; -EINVAL if `transfer` is NULL;
// -EBUSY while another call uses it.
//
// Threads: one at a time for one transfer.
int64_t fullbore_transfer_bytes(struct fullbore_transfer *transfer);

// Returns the number of bytes that were taken from the source, over all runs: more than have arrived only
// if the sink failed, or the transfer was stopped early. -EINVAL if `transfer` is NULL; -EBUSY while
// another call uses it.
//
// Threads: one at a time for one transfer.
int64_t fullbore_transfer_taken(struct fullbore_transfer *transfer);

// Returns the number of system calls that were made to move bytes, over all runs; -EINVAL if `transfer` is
// NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one transfer.
int64_t fullbore_transfer_calls(struct fullbore_transfer *transfer);

// Returns how long all runs took together, in nanoseconds; -EINVAL if `transfer` is NULL; -EBUSY while
// another call uses it.
//
// Threads: one at a time for one transfer.
int64_t fullbore_transfer_elapsed(struct fullbore_transfer *transfer);

// Returns the kind of the source, FULLBORE_KIND_..., or 0 before the first run; -EINVAL if `transfer` is
// NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one transfer.
int fullbore_transfer_source_kind(struct fullbore_transfer *transfer);

// Returns the kind of the sink, FULLBORE_KIND_..., or 0 before the first run; -EINVAL if `transfer` is
// NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one transfer.
int fullbore_transfer_sink_kind(struct fullbore_transfer *transfer);

// Returns the method that moved bytes as the one with this number, from 0, in the order of their first
// byte, FULLBORE_METHOD_..., and stores how many bytes it moved in `*bytes`, which may be NULL. Returns 0 if
// fewer methods were used; -EINVAL if `transfer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one transfer.
int fullbore_transfer_method(struct fullbore_transfer *transfer,
                             size_t index,
                             uint64_t *bytes);

// Frees a transfer. Bytes that were taken from the source and have not arrived are lost;
// fullbore_transfer_take_back returns them. NULL is allowed.
//
// Threads: any, once no other call uses this transfer.
void fullbore_transfer_free(struct fullbore_transfer *transfer);

// Creates a tee of `source` without sinks, and stores it in `*tee`. Free it with fullbore_tee_free.
//
// All file descriptors stay the caller's, and have to stay open as long as the tee exists. `options` may
// be NULL, which is all defaults.
//
// Returns 0; -EBADF if `source` is not open; -EINVAL for options that are wrong or that a tee does not
// have, and if `tee` is NULL.
// Threads: any.
int fullbore_tee_new(int source,
                     const struct fullbore_transfer_options *options,
                     struct fullbore_tee **tee,
                     struct fullbore_error *error);

// Adds a sink. Sinks are numbered from 0 in the order in which they are added.
//
// `on_closed` says what it means if the reader of the sink has gone (EPIPE), `on_error` what any other
// error of it means: FULLBORE_ON_ERROR_...
//
// Returns 0; -EBADF if `sink` is not open; -EINVAL after the first run, for numbers that are not
// FULLBORE_ON_ERROR_..., and if `tee` is NULL; -EBUSY while another call uses it.
// Threads: one at a time for one tee.
int fullbore_tee_add(struct fullbore_tee *tee,
                     int sink,
                     int32_t on_closed,
                     int32_t on_error,
                     struct fullbore_error *error);

// Moves bytes until the source ends, the limit is reached, or no sink is left. After a run that was
// cancelled, timed out or would have to wait, another run continues.
//
// Returns why it ended, FULLBORE_ENDED_...; the error of a side, which `error` names, with the number of the
// sink; -EINVAL if a sink is the source, if there is no sink, or if `tee` is NULL; -EBUSY while another call
// uses it.
// Threads: one at a time for one tee.
int fullbore_tee_run(struct fullbore_tee *tee,
                     struct fullbore_error *error);

// Sets the time at which a run ends, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `tee` is NULL or `deadline` is negative; -EBUSY while another call uses it.
// Threads: one at a time for one tee.
int fullbore_tee_set_deadline(struct fullbore_tee *tee,
                              int64_t deadline,
                              struct fullbore_error *error);

// Sets another cancel, so that a tee that was cancelled can continue. `cancel` may be freed afterwards.
//
// Returns 0; -EINVAL if an argument is NULL; -EBUSY while another call uses the tee.
// Threads: one at a time for one tee.
int fullbore_tee_set_cancel(struct fullbore_tee *tee,
                            const struct fullbore_cancel *cancel,
                            struct fullbore_error *error);

// Returns the number of bytes that were taken from the source, over all runs; -EINVAL if `tee` is NULL;
// -EBUSY while another call uses it.
//
// Threads: one at a time for one tee.
int64_t fullbore_tee_taken(struct fullbore_tee *tee);

// Returns how long all runs took together, in nanoseconds; -EINVAL if `tee` is NULL; -EBUSY while another
// call uses it.
//
// Threads: one at a time for one tee.
int64_t fullbore_tee_elapsed(struct fullbore_tee *tee);

// Returns the number of bytes that arrived at a sink, over all runs; -EINVAL if there is no such sink, or
// `tee` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one tee.
int64_t fullbore_tee_sink_bytes(struct fullbore_tee *tee,
                                size_t sink);

// Returns the error for which a sink was dropped, as a negative errno, and describes it in `*error`; 0 if it
// was not dropped, or if its errors do not count. -EINVAL with FULLBORE_CAUSE_ARGUMENT if there is no such
// sink, or `tee` is NULL; -EBUSY with FULLBORE_CAUSE_IN_USE while another call uses it.
//
// Threads: one at a time for one tee.
int fullbore_tee_sink_error(struct fullbore_tee *tee,
                            size_t sink,
                            struct fullbore_error *error);

// Returns 1 if a sink was dropped for an error, which may be one that does not count, otherwise 0; -EINVAL if
// there is no such sink, or `tee` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one tee.
int fullbore_tee_sink_is_dropped(struct fullbore_tee *tee,
                                 size_t sink);

// Returns 1 if a sink has to make room before the tee can continue, after
// FULLBORE_ENDED_SINK_WOULD_BLOCK, otherwise 0; -EINVAL if there is no such sink, or `tee` is NULL; -EBUSY
// while another call uses it.
//
// Threads: one at a time for one tee.
int fullbore_tee_sink_would_block(struct fullbore_tee *tee,
                                  size_t sink);

// Frees a tee. Bytes that were taken from the source and that not every sink has got are lost. NULL is
// allowed.
//
// Threads: any, once no other call uses this tee.
void fullbore_tee_free(struct fullbore_tee *tee);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FULLBORE_H */
