// fullbore.h: moves bytes through Linux pipes at the speed of memory, with a stated guarantee for each fast way.
//
// Link with -lfullbore; `pkg-config --cflags --libs fullbore` prints all options. Linux only.
// docs/c.md has an example, and says how to install the library.
//
// Conventions of all functions:
//
// Results. A function returns a negative errno if it fails: -EINVAL for an argument that is wrong on every
// machine (NULL where an object or a place is required, an invalid size, an unknown constant), -EBADF for a file
// descriptor that is not open, and otherwise the kernel's error. Any other value is a result. A function
// that returns an int64_t returns a number of bytes or nanoseconds. A function that returns a pointer returns
// NULL for a wrong argument. errno has no meaning after a call.
//
// Errors. `fullbore_error *error` may be NULL. If it is not, a function that fails stores there on which side
// (source or sink) it failed, after how many bytes, and a message.
//
// Objects. Every `..._new` stores a pointer that is freed by `..._free`, and NULL if it fails. An object must
// not be used after it was freed, nor be freed while another thread uses it. The caller owns the file
// descriptors, and must keep them open as long as the object exists.
//
// Threads. Different objects are independent. One object is used by one thread at a time; it may move to
// another thread between two calls. A call with an object that another call uses returns -EBUSY, and changes
// nothing. A fullbore_cancel may be used by several threads at a time.
//
// fork(2). A child must neither use nor free the objects of its parent.
//
// Signals. SIGPIPE is never raised: it is blocked in the calling thread during a call, and one that the call
// has caused is removed. A handler of another signal runs, and the call then continues; use a
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

// The version of this header, as numbers and as text. fullbore_version() returns that of the loaded library.
#define FULLBORE_VERSION_MAJOR 0
#define FULLBORE_VERSION_MINOR 1
#define FULLBORE_VERSION_PATCH 0
#define FULLBORE_VERSION "0.1.0"

// For `pipe_size` in options: leave the output pipe as it is.
#define FULLBORE_PIPE_SIZE_KEEP SIZE_MAX

// The side of an error: none, because the call does not move bytes.
#define FULLBORE_SIDE_NONE 0

// The side of an error: the source, which bytes are read from.
#define FULLBORE_SIDE_SOURCE 1

// The side of an error: the sink, which bytes are written to.
#define FULLBORE_SIDE_SINK 2

// The cause of an error: a system call failed, and the code is its errno.
#define FULLBORE_CAUSE_SYSTEM 1

// The cause of an error: an argument is wrong on every machine (-EINVAL, or -EBADF for a file
// descriptor that is not open).
#define FULLBORE_CAUSE_ARGUMENT 2

// The cause of an error: a fullbore_cancel (-ECANCELED) or a deadline (-ETIMEDOUT) ended the call.
#define FULLBORE_CAUSE_STOPPED 3

// The cause of an error: this kernel, or this user's limits, do not support the request (-EOPNOTSUPP).
#define FULLBORE_CAUSE_UNSUPPORTED 4

// The cause of an error: the object is in use by another call (-EBUSY).
#define FULLBORE_CAUSE_IN_USE 5

// The cause of an error: there is no such process, or it has ended (-ESRCH).
#define FULLBORE_CAUSE_NOT_FOUND 6

// The cause of an error: a defect of this library (-ENOTRECOVERABLE), which has printed a message to stderr. Free the
// object; its contents are not reliable.
#define FULLBORE_CAUSE_DEFECT 7

// Sleep in the call itself, as a blocking file descriptor does. This is the default.
#define FULLBORE_WAIT_BLOCK 0

// Try without waiting, and sleep in poll(2) before the next try.
#define FULLBORE_WAIT_POLL 1

// Try without waiting, repeatedly. This uses a whole CPU. It is the fastest if a CPU is idle, and the slowest if the
// peer has to run on the same CPU.
#define FULLBORE_WAIT_SPIN 2

// Spin as long as recent waits were short, at most 100 microseconds at a time, then sleep.
#define FULLBORE_WAIT_ADAPTIVE 3

// A flag of all options: a call that would have to wait fails with -EAGAIN, or, for a fullbore_transfer and a
// fullbore_tee, returns FULLBORE_ENDED_SOURCE_WOULD_BLOCK or FULLBORE_ENDED_SINK_WOULD_BLOCK.
#define FULLBORE_FLAG_NONBLOCKING 1

// The way in which a producer sends: chosen by the kind of the file. A pipe gets fresh pages, or bytes through a
// socket; anything else gets copies.
#define FULLBORE_WAY_AUTO 0

// The bytes are copied by write(2). Any file.
#define FULLBORE_WAY_COPY 1

// The bytes are copied into a socket, and spliced from there into the pipe. Pipes only.
#define FULLBORE_WAY_SOCKET 2

// vmsplice(2) sends pages that are never written to again. Pipes only.
#define FULLBORE_WAY_FRESH 3

// vmsplice(2) sends pages that are reused once the pipe no longer refers to them. Pipes only, and right only if every
// reader of the pipe COPIES the bytes out of it, as read(2) does, or drops them. A reader that forwards references, as
// splice(2), tee(2) and recent versions of cat, tee and pv do, passes on bytes that change later.
#define FULLBORE_WAY_RECYCLE 4

// References to pages that never change are sent. Only a fullbore_repeat sends in this way.
#define FULLBORE_WAY_REPEAT 5

// Another way, for which this version has no name.
#define FULLBORE_WAY_OTHER 6

// A flag of fullbore_producer_options: do not use huge pages.
#define FULLBORE_FLAG_NO_HUGE_PAGES 2



// A reader gets the bytes as they were when they were moved, whatever any process does afterwards. This
// is the default.
#define FULLBORE_GUARANTEE_SNAPSHOT 0

// A reader may get what the source's pages contain when it reads them. This is faster, and right if no process changes
// the source's bytes before they have been read.
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

// A run ended for another reason, for which this version has no name.
#define FULLBORE_ENDED_OTHER 6

// Bytes are moved by copy_file_range(2).
#define FULLBORE_METHOD_COPY_FILE_RANGE 1

// Bytes are moved by splice(2).
#define FULLBORE_METHOD_SPLICE 2

// Bytes are moved by two splice(2) calls, with a private pipe between them.
#define FULLBORE_METHOD_SPLICE_THROUGH 3

// Bytes are moved by sendfile(2).
#define FULLBORE_METHOD_SENDFILE 4

// Bytes are read into fresh pages, which are given to the pipe.
#define FULLBORE_METHOD_FRESH 5

// Bytes are read, copied into a socket and spliced from there into the pipe.
#define FULLBORE_METHOD_SOCKET 6

// Bytes are moved by read(2) and write(2).
#define FULLBORE_METHOD_READ_WRITE 7

// Bytes are moved in another way, for which this version has no name.
#define FULLBORE_METHOD_OTHER 8

// A flag of fullbore_transfer_options: start reading at `source_offset`, and do not change the position of the source.
#define FULLBORE_FLAG_AT_SOURCE_OFFSET 4

// A flag of fullbore_transfer_options: start writing at `sink_offset`, and do not change the position of the sink.
#define FULLBORE_FLAG_AT_SINK_OFFSET 8

// A flag of fullbore_transfer_options: pass all bytes through the memory of this process and to the progress function.
#define FULLBORE_FLAG_VISIBLE 16

// A flag of fullbore_transfer_options: use only read(2) and write(2).
#define FULLBORE_FLAG_PLAIN 32

// An error of one sink makes the whole tee fail.
#define FULLBORE_ON_ERROR_FAIL_ALL 0

// A sink with an error is dropped, and its error is kept.
#define FULLBORE_ON_ERROR_DROP 1

// A sink with an error is dropped without an error of the tee.
#define FULLBORE_ON_ERROR_IGNORE 2

// Ends the calls of other objects, from another thread or from a signal handler. Objects get it through their options.
typedef struct fullbore_cancel fullbore_cancel;

// Reads bytes from any file descriptor through a buffer. It never resizes the pipe that it reads from.
typedef struct fullbore_consumer fullbore_consumer;

// Sends bytes from memory to any file descriptor, as fast as the guarantee of its way allows.
//
// The reader gets the bytes as they were when they were sent, whatever it does with them, except with
// FULLBORE_WAY_RECYCLE.
typedef struct fullbore_producer fullbore_producer;

// Sends a pattern repeatedly, into a pipe from pages that never change.
typedef struct fullbore_repeat fullbore_repeat;

// Moves bytes from one file descriptor to many. A stalled sink delays the others only once its own pipe is full.
typedef struct fullbore_tee fullbore_tee;

// Moves bytes from any file descriptor to any other.
typedef struct fullbore_transfer fullbore_transfer;

// Describes an error.
//
// A function that takes a pointer to this structure fills it in if it fails, and does not change it if it succeeds.
// The pointer may be NULL. The structure needs no initialization, and nothing in it has to be freed. Its size is 256
// bytes in all versions.
typedef struct fullbore_error {
  // The code that the function returned: a negative errno.
  int code;
  // The side that failed: FULLBORE_SIDE_...
  int32_t side;
  // The cause: FULLBORE_CAUSE_...
  int32_t cause;
  // The index of the sink that failed, from 0, for a fullbore_tee; otherwise -1.
  int32_t sink;
  // Bytes that the object had moved before the error. They are not lost.
  uint64_t moved;
  // The message, as one line of UTF-8 that ends with a NUL. It is truncated if it is too long.
  char message[232];
} fullbore_error;

// The options of a fullbore_producer and a fullbore_repeat. Set `size` to `sizeof options` and all other fields to 0,
// and then change fields from their default: `fullbore_producer_options o = {.size = sizeof o}`.
typedef struct fullbore_producer_options {
  // sizeof(fullbore_producer_options).
  size_t size;
  // The most bytes that one system call sends, and that one fullbore_producer_reserve lends. 0 is
  // the default: 512 KiB, and 256 KiB for FULLBORE_WAY_RECYCLE.
  size_t chunk;
  // The number of bytes of memory that FULLBORE_WAY_RECYCLE uses in rotation. 0 is the default: the capacity of the
  // pipe plus two chunks.
  size_t memory;
  // The capacity in bytes that an output pipe is grown to, as far as the user's limits allow, once more than 64 KiB
  // are to be sent. 0 is the default: 1 MiB, and less in a small memory cgroup. FULLBORE_PIPE_SIZE_KEEP leaves the
  // pipe as it is. 64 pipes of 1 MiB use up the limit on all pipes of an unprivileged user.
  size_t pipe_size;
  // The deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC, as returned by
  // fullbore_deadline_in. 0 means none.
  int64_t deadline;
  // Ends calls with -ECANCELED. NULL means none. It may be freed once the object has been created.
  const struct fullbore_cancel *cancel;
  // FULLBORE_WAY_...; a fullbore_repeat accepts only FULLBORE_WAY_AUTO.
  int32_t way;
  // How to wait while the output is full: FULLBORE_WAIT_...
  int32_t wait;
  // FULLBORE_FLAG_NONBLOCKING, FULLBORE_FLAG_NO_HUGE_PAGES.
  uint32_t flags;
  // 0.
  uint32_t reserved;
} fullbore_producer_options;

// The options of a fullbore_consumer. Set `size` to `sizeof options` and all other fields to 0, and then change fields
// from their default.
typedef struct fullbore_consumer_options {
  // sizeof(fullbore_consumer_options).
  size_t size;
  // The size of the buffer in bytes. 0 is the default: half of the L2 cache.
  size_t buffer;
  // The deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC, as returned by
  // fullbore_deadline_in. 0 means none.
  int64_t deadline;
  // How to wait while there is nothing to read: FULLBORE_WAIT_...
  int32_t wait;
  // FULLBORE_FLAG_NONBLOCKING.
  uint32_t flags;
  // Ends calls with -ECANCELED when it is cancelled. NULL means none. It may be freed before the consumer.
  const struct fullbore_cancel *cancel;
} fullbore_consumer_options;

// The options of a fullbore_transfer and a fullbore_tee. Set `size` to `sizeof options` and all other fields to 0, and
// then change fields from their default.
typedef struct fullbore_transfer_options {
  // sizeof(fullbore_transfer_options).
  size_t size;
  // The most bytes to move; no more than that are taken from the source. 0 means no limit.
  uint64_t limit;
  // With FULLBORE_FLAG_AT_SOURCE_OFFSET: where to start reading. Not for a fullbore_tee.
  uint64_t source_offset;
  // With FULLBORE_FLAG_AT_SINK_OFFSET: where to start writing. Not for a fullbore_tee.
  uint64_t sink_offset;
  // The most bytes that one system call moves. 0 is the default, which depends on the method.
  size_t chunk;
  // The capacity in bytes that output pipes and private pipes are grown to, as far as the user's limits allow. 0 is
  // the default: 1 MiB, and less in a small memory cgroup. FULLBORE_PIPE_SIZE_KEEP leaves them as they are.
  size_t pipe_size;
  // The deadline at which a run ends with FULLBORE_ENDED_TIMED_OUT, in nanoseconds of CLOCK_MONOTONIC, as returned
  // by fullbore_deadline_in. 0 means none.
  int64_t deadline;
  // Ends a run with FULLBORE_ENDED_CANCELLED. NULL means none. It may be freed once the object has been created.
  const struct fullbore_cancel *cancel;
  // FULLBORE_GUARANTEE_...; for a fullbore_tee only FULLBORE_GUARANTEE_SNAPSHOT.
  int32_t guarantee;
  // How to wait while there is nothing to read or no room to write: FULLBORE_WAIT_...
  int32_t wait;
  // FULLBORE_FLAG_NONBLOCKING, FULLBORE_FLAG_AT_SOURCE_OFFSET, FULLBORE_FLAG_AT_SINK_OFFSET,
  // FULLBORE_FLAG_VISIBLE, FULLBORE_FLAG_PLAIN; for a fullbore_tee only FULLBORE_FLAG_NONBLOCKING and
  // FULLBORE_FLAG_PLAIN.
  uint32_t flags;
  // 0.
  uint32_t reserved;
} fullbore_transfer_options;

// The progress of a transfer. Later versions may add to its end.
typedef struct fullbore_progress {
  // Bytes that have arrived in total.
  uint64_t bytes;
  // Bytes that arrived with this step.
  uint64_t step;
  // The bytes of this step themselves, with FULLBORE_FLAG_VISIBLE; otherwise NULL. They are lent during the call.
  const void *seen;
  // The number of bytes in `seen`.
  size_t seen_len;
  // How they were moved: FULLBORE_METHOD_...
  int32_t method;
} fullbore_progress;

// A function that is called after each step of a transfer that moved bytes, in the thread that runs the transfer, with
// the `user` pointer of the run. It returns 0 to continue, anything else to stop. It must return: neither longjmp nor
// a C++ exception may leave it. In it, calls with the same transfer fail with -EBUSY, and SIGPIPE is blocked.
typedef int (*fullbore_progress_fn)(void *user, const struct fullbore_progress *progress);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the loaded library, such as "0.1.0". It is static: do not free it.
//
// Threads: any.
const char *fullbore_version(void);

// Creates a cancel, and stores it in `*cancel`. Free it with fullbore_cancel_free.
//
// Returns 0; -EMFILE, -ENFILE or -ENOMEM as eventfd(2); -EINVAL if `cancel` is NULL.
// Threads: any.
int fullbore_cancel_new(struct fullbore_cancel **cancel, struct fullbore_error *error);

// Permanently ends all calls of the objects with this cancel, and refuses further ones. They fail with -ECANCELED, or
// return FULLBORE_ENDED_CANCELLED.
//
// Returns 0, or -EINVAL if `cancel` is NULL.
// Threads: any, at any time; also in a signal handler, where it does not change errno.
int fullbore_cancel_now(const struct fullbore_cancel *cancel);

// Returns 1 if fullbore_cancel_now was called, 0 if it was not, or -EINVAL if `cancel` is NULL.
//
// Threads: any, at any time.
int fullbore_cancel_is_cancelled(const struct fullbore_cancel *cancel);

// Frees a cancel. It may be freed before the objects that were created with it. NULL is allowed.
//
// Threads: any, while no other call uses this cancel.
void fullbore_cancel_free(struct fullbore_cancel *cancel);

// Returns the deadline that is `nanoseconds` from now, in nanoseconds of CLOCK_MONOTONIC; never 0, which means no
// deadline. A negative number gives a time in the past.
//
// Threads: any.
int64_t fullbore_deadline_in(int64_t nanoseconds);

// Creates a pipe with pipe2(O_CLOEXEC), and grows it up to `bytes`, as far as the user's limits allow; 0 leaves it as
// it is, at 64 KiB with pages of 4 KiB.
//
// `fds` points to room for two descriptors: `fds[0]` is set to the read end, `fds[1]` to the write end. The caller
// closes both. fullbore_pipe_capacity returns the resulting capacity.
//
// Returns 0; -EMFILE or -ENFILE as pipe2(2); -EINVAL if `fds` is NULL.
// Threads: any.
int fullbore_pipe(int *fds,
                  size_t bytes,
                  struct fullbore_error *error);

// Returns the capacity of a pipe in bytes (F_GETPIPE_SZ); -EBADF if `pipe` is not open; -EINVAL if it is
// not a pipe.
//
// Threads: any.
int64_t fullbore_pipe_capacity(int pipe,
                               struct fullbore_error *error);

// Returns the number of bytes in a pipe now (FIONREAD), from either end; -EBADF if `pipe` is not open; -EINVAL if it
// is not a pipe.
//
// Threads: any.
int64_t fullbore_pipe_queued(int pipe,
                             struct fullbore_error *error);

// Grows a pipe up to `bytes`, as far as the user's limits allow. It is never shrunk. A limit is not an error.
//
// Grow a pipe only if you write to it: another writer may infer from the capacity when a page is free. All pipes of an
// unprivileged user may have 64 MiB together (/proc/sys/fs/pipe-user-pages-soft); beyond that, new pipes of this user
// have one or two pages.
//
// Returns the capacity in bytes; -EBADF if `pipe` is not open; -EINVAL if it is not a pipe; -ENOMEM.
// Threads: any.
int64_t fullbore_pipe_grow(int pipe,
                           size_t bytes,
                           struct fullbore_error *error);

// Creates a producer that sends to `sink`, and stores it in `*producer`. Free it with
// fullbore_producer_free.
//
// The caller owns `sink`, and must keep it open as long as the producer exists. A producer that sends to a pipe keeps
// a duplicate of it: the pipe's reader sees no end of file before the producer has finished or is freed. `options` may
// be NULL for the defaults.
//
// Returns 0; -EBADF if `sink` is not open, or is the read end of a pipe; -EINVAL for a way that needs a pipe if `sink`
// is not one, for invalid options, and if `producer` is NULL; -ENOMEM.
// Threads: any.
int fullbore_producer_new(int sink,
                          const struct fullbore_producer_options *options,
                          struct fullbore_producer **producer,
                          struct fullbore_error *error);

// Gathers `len` bytes of `memory`, and sends them in chunks, now or in a later call. `memory` may be reused when it
// returns.
//
// Returns how many bytes were accepted: all of them, unless an error occurs after some, which the next call then
// returns. Bytes that were accepted must not be written again.
// -EPIPE if no reader is left, and other errors of write(2) and vmsplice(2), with FULLBORE_SIDE_SINK;
// -EAGAIN with FULLBORE_FLAG_NONBLOCKING; -ETIMEDOUT; -ECANCELED; -EINVAL if `producer` or `memory` is NULL,
// `len` is more than SSIZE_MAX, or the producer has finished; -EBUSY while another call uses it.
// Threads: one at a time for one producer.
int64_t fullbore_producer_write(struct fullbore_producer *producer,
                                const void *memory,
                                size_t len,
                                struct fullbore_error *error);

// Lends `len` bytes of memory to fill, and stores their address in `*memory`. Their contents are unspecified. Bytes
// that were gathered by fullbore_producer_write are sent first.
//
// The memory is lent until the next call with this producer that does not only return a number.
// fullbore_producer_commit sends it.
//
// Returns 0; -EINVAL for more bytes than fullbore_producer_chunk, if an argument is NULL, and if the
// producer has finished; -ENOMEM; otherwise as fullbore_producer_write.
// Threads: one at a time for one producer.
int fullbore_producer_reserve(struct fullbore_producer *producer,
                              size_t len,
                              void **memory,
                              struct fullbore_error *error);

// Sends the first `len` bytes of the memory that the last fullbore_producer_reserve lent. The memory must not be used
// any more, even if this fails.
//
// Returns 0; -EINVAL for more bytes than were lent, if `producer` is NULL, and if it has finished; otherwise as
// fullbore_producer_write. After an error, unsent bytes stay in the producer, and the next call sends them first: do
// not commit them again.
// Threads: one at a time for one producer.
int fullbore_producer_commit(struct fullbore_producer *producer,
                             size_t len,
                             struct fullbore_error *error);

// Sends the gathered bytes.
//
// Returns 0; -EINVAL if `producer` is NULL or has finished; otherwise as fullbore_producer_write. With
// FULLBORE_FLAG_NONBLOCKING, after -EAGAIN, wait until the sink can be written to (poll(2)), and call it again.
// Threads: one at a time for one producer.
int fullbore_producer_flush(struct fullbore_producer *producer,
                            struct fullbore_error *error);

// Sends the remaining bytes, and finishes the producer: it closes its duplicate of the sink, and afterwards only the
// functions that return a number, and fullbore_producer_free, are allowed. With FULLBORE_WAY_RECYCLE it returns when
// the last byte has been read.
//
// Returns 0 if all bytes were sent; -EINVAL if `producer` is NULL or has finished; otherwise as
// fullbore_producer_write. After an error the producer has not finished, and keeps its unsent bytes: call this again
// to continue, or fullbore_producer_free to drop them.
// Threads: one at a time for one producer.
int fullbore_producer_finish(struct fullbore_producer *producer,
                             struct fullbore_error *error);

// Stores the address and the length of the bytes that were accepted and not sent yet. They are lent as by
// fullbore_producer_reserve. After fullbore_producer_finish there are none.
//
// Returns 0; -EINVAL if an argument is NULL; -EBUSY while another call uses the producer.
// Threads: one at a time for one producer.
int fullbore_producer_unsent(struct fullbore_producer *producer,
                             const void **memory,
                             size_t *len,
                             struct fullbore_error *error);

// Sets the deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `producer` is NULL or has finished, or `deadline` is negative; -EBUSY while
// another call uses the producer.
// Threads: one at a time for one producer.
int fullbore_producer_set_deadline(struct fullbore_producer *producer,
                                   int64_t deadline,
                                   struct fullbore_error *error);

// Returns the number of bytes sent so far; -EINVAL if `producer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one producer.
int64_t fullbore_producer_sent(struct fullbore_producer *producer);

// Returns the way in which bytes are sent now, FULLBORE_WAY_...; it can change when the kernel refuses a way, or when
// the consumer shares memory. -EINVAL if `producer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one producer.
int fullbore_producer_way(struct fullbore_producer *producer);

// Returns the size of a chunk in bytes: the most that one fullbore_producer_reserve lends. -EINVAL if
// `producer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one producer.
int64_t fullbore_producer_chunk(struct fullbore_producer *producer);

// Frees a producer. Like fclose(3), it first sends the remaining bytes, but cannot return an error: call
// fullbore_producer_finish before. Nothing is sent if a call has returned an error other than -EAGAIN, -ECANCELED and
// -ETIMEDOUT since bytes were last passed in. NULL is allowed.
//
// Threads: any, once no other call uses this producer.
void fullbore_producer_free(struct fullbore_producer *producer);

// Creates a repeat that sends the `len` bytes of `pattern` to `sink`, and stores it in `*repeat`. The
// pattern is copied. Free it with fullbore_repeat_free.
//
// The caller owns `sink`, and must keep it open as long as the repeat exists. A repeat that sends to a pipe keeps a
// duplicate of it: the pipe's reader sees no end of file until it is freed. `options` may be NULL; its `way` must be
// FULLBORE_WAY_AUTO, and `chunk` and `memory` have no effect.
//
// Returns 0; -EBADF if `sink` is not open, or is the read end of a pipe; -EINVAL for an empty pattern, for invalid
// options, and if `pattern` or `repeat` is NULL; -ENOMEM.
// Threads: any.
int fullbore_repeat_new(int sink,
                        const void *pattern,
                        size_t len,
                        const struct fullbore_producer_options *options,
                        struct fullbore_repeat **repeat,
                        struct fullbore_error *error);

// Sends `len` more bytes, from where the last call stopped in the pattern. UINT64_MAX sends until the reader closes
// the pipe.
//
// Returns 0; -EPIPE if no reader is left, and other errors of write(2), tee(2) and splice(2), with FULLBORE_SIDE_SINK;
// -EAGAIN with FULLBORE_FLAG_NONBLOCKING; -ETIMEDOUT; -ECANCELED; -EINVAL if `repeat` is NULL; -EBUSY while another
// call uses it. fullbore_repeat_sent counts the bytes sent before an error, and the next call continues from there.
// Threads: one at a time for one repeat.
int fullbore_repeat_send(struct fullbore_repeat *repeat,
                         uint64_t len,
                         struct fullbore_error *error);

// Sets the deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `repeat` is NULL or `deadline` is negative; -EBUSY while another call uses it.
// Threads: one at a time for one repeat.
int fullbore_repeat_set_deadline(struct fullbore_repeat *repeat,
                                 int64_t deadline,
                                 struct fullbore_error *error);

// Returns the number of bytes sent so far; -EINVAL if `repeat` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one repeat.
int64_t fullbore_repeat_sent(struct fullbore_repeat *repeat);

// Returns FULLBORE_WAY_REPEAT, or FULLBORE_WAY_COPY if the output does not accept references; -EINVAL if `repeat` is
// NULL; -EBUSY while another call uses it.
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
// The caller owns `source`, and must keep it open as long as the consumer exists. `options` may be NULL for the
// defaults.
//
// Returns 0; -EBADF if `source` is not open; -EINVAL for invalid options, and if `consumer` is NULL; -ENOMEM.
// Threads: any.
int fullbore_consumer_new(int source,
                          const struct fullbore_consumer_options *options,
                          struct fullbore_consumer **consumer,
                          struct fullbore_error *error);

// Reads up to `len` bytes into `memory`.
//
// Returns how many bytes were read, which may be fewer than `len`; 0 at the end, when all writers have closed, and if
// `len` is 0. Errors of read(2), with FULLBORE_SIDE_SOURCE; -EAGAIN with FULLBORE_FLAG_NONBLOCKING if no bytes are
// available; -ETIMEDOUT; -ECANCELED after the `cancel` of the options was cancelled; -EINVAL if `consumer` or `memory`
// is NULL or `len` is more than SSIZE_MAX; -EBUSY while another call uses the consumer. Signals do not interrupt it.
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_read(struct fullbore_consumer *consumer,
                               void *memory,
                               size_t len,
                               struct fullbore_error *error);

// Lends the bytes in the buffer: stores their address in `*memory` and their number in `*len`. It reads if the buffer
// is empty, so `*len` is 0 only at the end. The bytes stay in the buffer until fullbore_consumer_consume.
//
// The memory is lent until the next call with this consumer that does not only return a number.
//
// Returns 0; -EINVAL if an argument is NULL; otherwise as fullbore_consumer_read.
// Threads: one at a time for one consumer.
int fullbore_consumer_fill(struct fullbore_consumer *consumer,
                           const void **memory,
                           size_t *len,
                           struct fullbore_error *error);

// Removes the first `len` bytes from the buffer.
//
// Returns 0; -EINVAL for more bytes than are in the buffer, and if `consumer` is NULL; -EBUSY while
// another call uses it.
// Threads: one at a time for one consumer.
int fullbore_consumer_consume(struct fullbore_consumer *consumer,
                              size_t len,
                              struct fullbore_error *error);

// Discards the next `len` bytes, or all up to the end. Bytes in a pipe are discarded without being copied.
//
// Returns how many were discarded; otherwise as fullbore_consumer_read. Bytes that were discarded before
// an error are lost.
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_discard(struct fullbore_consumer *consumer,
                                  uint64_t len,
                                  struct fullbore_error *error);

// Sets the deadline at which calls end with -ETIMEDOUT, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `consumer` is NULL or `deadline` is negative; -EBUSY while another call uses it.
// Threads: one at a time for one consumer.
int fullbore_consumer_set_deadline(struct fullbore_consumer *consumer,
                                   int64_t deadline,
                                   struct fullbore_error *error);

// Returns the number of bytes taken from the source so far, including those in the buffer; -EINVAL if `consumer` is
// NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_taken(struct fullbore_consumer *consumer);

// Returns the number of bytes in the buffer, which fullbore_consumer_fill lends without reading; -EINVAL if `consumer`
// is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one consumer.
int64_t fullbore_consumer_buffered(struct fullbore_consumer *consumer);

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

// Creates a transfer from `source` to `sink`, and stores it in `*transfer`. Nothing is moved yet. Free it
// with fullbore_transfer_free.
//
// The caller owns both file descriptors, and must keep them open as long as the transfer exists. `options` may be NULL
// for the defaults.
//
// Returns 0; -EBADF if a file descriptor is not open; -EINVAL for invalid options, and if `transfer` is NULL.
// Threads: any.
int fullbore_transfer_new(int source,
                          int sink,
                          const struct fullbore_transfer_options *options,
                          struct fullbore_transfer **transfer,
                          struct fullbore_error *error);

// Moves bytes until the source ends, the limit is reached, or the transfer cannot continue.
//
// `progress` is called after each step, with `user`; it may be NULL. A run that was cancelled, timed out, would have
// blocked, or has reached a limit that was then raised can be continued by another run.
//
// Returns why it ended, FULLBORE_ENDED_...; the error of a side, which `error` names; -EINVAL if both are
// the same file or pipe, or if `transfer` is NULL; -EBUSY while another call uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_run(struct fullbore_transfer *transfer,
                          fullbore_progress_fn progress,
                          void *user,
                          struct fullbore_error *error);

// Sets the most bytes to move, in all runs. Unlike in the options, 0 means that no byte is moved.
//
// Returns 0; -EINVAL if `transfer` is NULL, or its bytes have been taken back; -EBUSY while another call
// uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_set_limit(struct fullbore_transfer *transfer,
                                uint64_t limit,
                                struct fullbore_error *error);

// Sets the deadline of a run, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `transfer` is NULL, its bytes have been taken back, or `deadline` is negative;
// -EBUSY while another call uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_set_deadline(struct fullbore_transfer *transfer,
                                   int64_t deadline,
                                   struct fullbore_error *error);

// Sets another cancel, so that a cancelled transfer can continue. `cancel` may be freed afterwards.
//
// Returns 0; -EINVAL if an argument is NULL, or the bytes of the transfer have been taken back; -EBUSY
// while another call uses it.
// Threads: one at a time for one transfer.
int fullbore_transfer_set_cancel(struct fullbore_transfer *transfer,
                                 const struct fullbore_cancel *cancel,
                                 struct fullbore_error *error);

// Ends a transfer, and stores the address and the length of the bytes that were taken from the source and have not
// arrived at the sink, in order. There are such bytes only if the sink failed or the transfer was stopped early. They
// are lent until the transfer is freed.
//
// Returns 0; -EINVAL if an argument is NULL, or they have been taken back before; -EBUSY while another call uses the
// transfer; the error of read(2) if they are in a private pipe, with FULLBORE_SIDE_SOURCE.
// Threads: one at a time for one transfer.
int fullbore_transfer_take_back(struct fullbore_transfer *transfer,
                                const void **memory,
                                size_t *len,
                                struct fullbore_error *error);

// Returns the number of bytes that have arrived at the sink, in all runs; -EINVAL if `transfer` is NULL; -EBUSY while
// another call uses it.
//
// Threads: one at a time for one transfer.
int64_t fullbore_transfer_bytes(struct fullbore_transfer *transfer);

// Returns the number of bytes taken from the source, in all runs: more than have arrived only if the sink failed, or
// the transfer was stopped early. -EINVAL if `transfer` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one transfer.
int64_t fullbore_transfer_taken(struct fullbore_transfer *transfer);

// Returns the method with this index, from 0, in the order of their first byte, FULLBORE_METHOD_..., and stores how
// many bytes it moved in `*bytes`, which may be NULL. Returns 0 if fewer methods were used; -EINVAL if `transfer` is
// NULL; -EBUSY while another call uses it.
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
// The caller owns all file descriptors, and must keep them open as long as the tee exists. `options` may be NULL for
// the defaults.
//
// Returns 0; -EBADF if `source` is not open; -EINVAL for options that are invalid or not supported by a tee, and if
// `tee` is NULL.
// Threads: any.
int fullbore_tee_new(int source,
                     const struct fullbore_transfer_options *options,
                     struct fullbore_tee **tee,
                     struct fullbore_error *error);

// Adds a sink. Sinks are numbered from 0 in the order in which they are added.
//
// `on_closed` says what happens if the reader of the sink closes it (EPIPE), and `on_error` what happens after any
// other error: FULLBORE_ON_ERROR_...
//
// Returns 0; -EBADF if `sink` is not open; -EINVAL after the first run, for numbers that are not
// FULLBORE_ON_ERROR_..., and if `tee` is NULL; -EBUSY while another call uses it.
// Threads: one at a time for one tee.
int fullbore_tee_add(struct fullbore_tee *tee,
                     int sink,
                     int32_t on_closed,
                     int32_t on_error,
                     struct fullbore_error *error);

// Moves bytes until the source ends, the limit is reached, or no sink is left. A run that was cancelled, timed out or
// would have blocked can be continued by another run.
//
// Returns why it ended, FULLBORE_ENDED_...; the error of a side, which `error` names, with the index of the sink;
// -EINVAL if a sink is the source, if there is no sink, or if `tee` is NULL; -EBUSY while another call uses it.
// Threads: one at a time for one tee.
int fullbore_tee_run(struct fullbore_tee *tee,
                     struct fullbore_error *error);

// Sets the deadline of a run, in nanoseconds of CLOCK_MONOTONIC; 0 removes it.
//
// Returns 0; -EINVAL if `tee` is NULL or `deadline` is negative; -EBUSY while another call uses it.
// Threads: one at a time for one tee.
int fullbore_tee_set_deadline(struct fullbore_tee *tee,
                              int64_t deadline,
                              struct fullbore_error *error);

// Sets another cancel, so that a cancelled tee can continue. `cancel` may be freed afterwards.
//
// Returns 0; -EINVAL if an argument is NULL; -EBUSY while another call uses the tee.
// Threads: one at a time for one tee.
int fullbore_tee_set_cancel(struct fullbore_tee *tee,
                            const struct fullbore_cancel *cancel,
                            struct fullbore_error *error);

// Returns the number of bytes taken from the source, in all runs; -EINVAL if `tee` is NULL; -EBUSY while another call
// uses it.
//
// Threads: one at a time for one tee.
int64_t fullbore_tee_taken(struct fullbore_tee *tee);

// Returns the number of bytes that arrived at a sink, in all runs; -EINVAL if there is no such sink, or `tee` is NULL;
// -EBUSY while another call uses it.
//
// Threads: one at a time for one tee.
int64_t fullbore_tee_sink_bytes(struct fullbore_tee *tee,
                                size_t sink);

// Returns the error for which a sink was dropped, as a negative errno, and describes it in `*error`; 0 if it was not
// dropped, or if its errors are ignored. -EINVAL with FULLBORE_CAUSE_ARGUMENT if there is no such sink, or `tee` is
// NULL; -EBUSY with FULLBORE_CAUSE_IN_USE while another call uses it.
//
// Threads: one at a time for one tee.
int fullbore_tee_sink_error(struct fullbore_tee *tee,
                            size_t sink,
                            struct fullbore_error *error);

// Returns 1 if a sink was dropped for an error, even an ignored one, otherwise 0; -EINVAL if there is no such sink, or
// `tee` is NULL; -EBUSY while another call uses it.
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

// Frees a tee. Bytes that were taken from the source and that some sinks lack are lost. NULL is allowed.
//
// Threads: any, once no other call uses this tee.
void fullbore_tee_free(struct fullbore_tee *tee);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FULLBORE_H */
