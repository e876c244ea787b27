// fullbore-observe.h: watches pipelines of running processes, and says which stage is slow.
//
// These functions are in the same library as those of fullbore.h, unless it was built without its feature
// `observe`. The conventions of fullbore.h hold for them, too.


#ifndef FULLBORE_OBSERVE_H
#define FULLBORE_OBSERVE_H

#include "fullbore.h"

// A flag of fullbore_monitor_new: include pipes whose two ends are both open in every process that has them open.
#define FULLBORE_FLAG_ALL_PIPES 64

// There is no verdict: the pipeline is not watched.
#define FULLBORE_VERDICT_NONE 0

// One stage is slow; `bound` says what it spends its time on.
#define FULLBORE_VERDICT_STAGE 1

// Several stages are slow together, at the same time.
#define FULLBORE_VERDICT_SHARED 2

// Several stages are slow at different times.
#define FULLBORE_VERDICT_BY_TURNS 3

// There are too few CPUs for all stages that could run.
#define FULLBORE_VERDICT_CPUS 4

// No stage is slow: the time is spent on wakeups.
#define FULLBORE_VERDICT_WAKING 5

// No stage is clearly slow.
#define FULLBORE_VERDICT_NOBODY 6

// The time of observation was too short.
#define FULLBORE_VERDICT_TOO_SHORT 7

// There is only one stage.
#define FULLBORE_VERDICT_ALONE 8

// A verdict may be wrong.
#define FULLBORE_SURENESS_NOT_SURE 0

// Most observations agree with a verdict.
#define FULLBORE_SURENESS_LIKELY 1

// All observations agree with a verdict.
#define FULLBORE_SURENESS_SURE 2

// No slow stage is named.
#define FULLBORE_BOUND_NONE 0

// The slow stage runs.
#define FULLBORE_BOUND_CPU 1

// The slow stage waits for a CPU.
#define FULLBORE_BOUND_QUEUE 2

// The slow stage waits for a file or a device.
#define FULLBORE_BOUND_DISK 3

// The slow stage waits for a socket.
#define FULLBORE_BOUND_NETWORK 4

// The slow stage waits for a terminal.
#define FULLBORE_BOUND_TERMINAL 5

// The slow stage waits for one of several descriptors, in poll(2) or a similar call.
#define FULLBORE_BOUND_SEVERAL 6

// The slow stage waits for a timer.
#define FULLBORE_BOUND_TIMER 7

// The slow stage was stopped.
#define FULLBORE_BOUND_STOPPED 8

// The slow stage waits for a pipe that is not between two stages.
#define FULLBORE_BOUND_OTHER_PIPE 9

// The slow stage waits for a lock.
#define FULLBORE_BOUND_LOCK 10

// The slow stage waits for a signal.
#define FULLBORE_BOUND_SIGNAL 11

// The slow stage waits for a process that it started.
#define FULLBORE_BOUND_CHILD 12

// It is unknown what the slow stage waits for.
#define FULLBORE_BOUND_UNKNOWN 13

// A pipe leads from one process to another, as the stdin, stdout or stderr of one of them.
#define FULLBORE_USE_LINK 1

// A pipe leads from one process to another, and is not the stdin, stdout or stderr of either.
#define FULLBORE_USE_PRIVATE 2

// Every process that has the pipe open has both of its ends.
#define FULLBORE_USE_OWN 3

// No visible process has the other end of the pipe open.
#define FULLBORE_USE_ONE_SIDED 4

// A number is not known.
#define FULLBORE_CERTAINTY_UNKNOWN 0

// A number may include other files.
#define FULLBORE_CERTAINTY_ABOUT 1

// Both sides counted the same number.
#define FULLBORE_CERTAINTY_COUNTED 2

// It is unknown which side of a pipe is slow.
#define FULLBORE_SLOW_UNKNOWN 0

// The writer of a pipe is slow, or a stage before it.
#define FULLBORE_SLOW_WRITER 1

// The reader of a pipe is slow, or a stage after it.
#define FULLBORE_SLOW_READER 2

// Both sides are about equally slow, or take turns in being slow.
#define FULLBORE_SLOW_BOTH 3

// Neither side is slow: there are too few CPUs.
#define FULLBORE_SLOW_CPUS 4

// Observes the pipelines of running processes repeatedly, without touching their bytes.
typedef struct fullbore_monitor fullbore_monitor;

// The state of all pipelines and pipes at one scan. It is immutable.
typedef struct fullbore_overview fullbore_overview;

// A pipeline without branches. Later versions may add to its end.
typedef struct fullbore_chain {
  // The number of stages, for fullbore_overview_stage.
  size_t stages;
  // The number of pipes, for fullbore_overview_chain_pipe: one less than the number of stages.
  size_t pipes;
  // The number of stages that the verdict names, for fullbore_overview_slow_stage.
  size_t slow_stages;
  // The verdict in words, as one line of UTF-8; NULL if there is none.
  const char *words;
  // Which stage is slow: FULLBORE_VERDICT_...
  int32_t verdict;
  // How sure the verdict is: FULLBORE_SURENESS_NOT_SURE, FULLBORE_SURENESS_LIKELY or FULLBORE_SURENESS_SURE.
  int32_t sure;
  // What the slow stage of FULLBORE_VERDICT_STAGE spends its time on: FULLBORE_BOUND_...
  int32_t bound;
  // 1 if its last stage writes to its first, otherwise 0.
  int32_t is_circle;
} fullbore_chain;

// A stage of a chain, and its activity in the last seconds. Shares are from 0 to 1, and NAN if they are unknown. Later
// versions may add to its end.
typedef struct fullbore_stage {
  // The number of processes, for fullbore_overview_stage_process. It is 0 if no process has both pipes open any
  // more.
  size_t processes;
  // The number of CPUs that it kept busy.
  double cpus;
  // The share of the time in which the other stages waited for it.
  double blame;
  // The share in which at least one of its threads ran.
  double ran;
  // The share in which it waited for a CPU.
  double waited_for_cpu;
  // The share in which it waited for the stage before it.
  double waited_for_input;
  // The share in which it waited for the stage after it.
  double waited_for_output;
  // The share in which it waited for anything else.
  double waited_elsewhere;
} fullbore_stage;

// A process. Later versions may add to its end.
typedef struct fullbore_process {
  // When it started, in clock ticks since boot: with `pid` this identifies it.
  uint64_t start;
  // Its name, at most 15 bytes.
  const char *name;
  // Its arguments, truncated to 200 characters, as one line that is safe to print.
  const char *command;
  // Its process id.
  uint32_t pid;
  // The user id of its owner.
  uint32_t uid;
} fullbore_process;

// A pipe. Shares and rates are those of the last seconds, and NAN if they are unknown; whole numbers are then -1.
// Later versions may add to its end.
typedef struct fullbore_pipe_state {
  // The device number of its inode, which with `inode` identifies it.
  uint64_t device;
  // The number of its inode.
  uint64_t inode;
  // The path of a FIFO; NULL for another pipe.
  const char *path;
  // Why its capacity and its queued bytes could not be read; NULL if they were read.
  const char *closed;
  // The index of the chain that it is part of, or -1.
  int64_t chain;
  // The number of processes that write to it, for fullbore_overview_pipe_writer.
  size_t writers;
  // The number of processes that read from it, for fullbore_overview_pipe_reader.
  size_t readers;
  // Its capacity in bytes.
  int64_t capacity;
  // Bytes that are queued in it.
  int64_t queued;
  // Bytes that went through it since it was first seen.
  int64_t bytes;
  // Bytes per second.
  double bytes_per_second;
  // The share of the time in which it was empty.
  double empty;
  // The share in which it was full, or its writer waited for room in it.
  double full;
  // The share in which its writer waited for room in it.
  double writer_waits;
  // The share in which its reader waited for bytes.
  double reader_waits;
  // For how many seconds, at least, its writer has been waiting; NAN if it is not waiting.
  double writer_blocked;
  // For how many seconds, at least, its reader has been waiting; NAN if it is not waiting.
  double reader_blocked;
  // Its use: FULLBORE_USE_...
  int32_t use_of;
  // The certainty of `bytes`: FULLBORE_CERTAINTY_...
  int32_t bytes_are;
  // The certainty of `bytes_per_second`: FULLBORE_CERTAINTY_...
  int32_t rate_is;
  // The slow side, according to the verdict of its chain: FULLBORE_SLOW_...
  int32_t slow;
  // The user id of its creator.
  uint32_t owner;
} fullbore_pipe_state;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates a monitor of the pipes of all processes that this user may see, except the calling process, and stores it in
// `*monitor`. Free it with fullbore_monitor_free.
//
// It keeps files of /proc open, and therefore raises this process's limit on open files to the maximum
// (RLIMIT_NOFILE). A program that uses select(2), which supports no descriptor above 1023, should run the monitor in a
// separate process.
//
// `flags` is 0 or FULLBORE_FLAG_ALL_PIPES.
//
// Returns 0; -EOPNOTSUPP if /proc is not mounted; -EINVAL for unknown flags, and if `monitor` is NULL.
// Threads: any.
int fullbore_monitor_new(uint32_t flags,
                         struct fullbore_monitor **monitor,
                         fullbore_error *error);

// Creates a monitor like fullbore_monitor_new, but of the pipelines of a process and all its descendants.
//
// Returns as fullbore_monitor_new; -ESRCH if there is no such process; -EOPNOTSUPP if /proc hides it from
// this user; -EINVAL if `pid` is not positive.
// Threads: any.
int fullbore_monitor_new_tree(int32_t pid,
                              uint32_t flags,
                              struct fullbore_monitor **monitor,
                              fullbore_error *error);

// Creates a monitor like fullbore_monitor_new, but of the pipelines of processes with this name, and of FIFOs with
// this name.
//
// Returns as fullbore_monitor_new; -EINVAL if `name` is NULL or not UTF-8.
// Threads: any.
int fullbore_monitor_new_named(const char *name,
                               uint32_t flags,
                               struct fullbore_monitor **monitor,
                               fullbore_error *error);

// Observes for this time, and stores an overview with rates and verdicts in `*overview`, for programs that need only
// one. Free the overview with fullbore_overview_free.
//
// Returns 0; -ESRCH if the monitored process has exited; -EINVAL if an argument is NULL, or the time is negative;
// -EBUSY while another call uses the monitor.
// Threads: one at a time for one monitor.
int fullbore_monitor_once(struct fullbore_monitor *monitor,
                          int64_t nanoseconds,
                          struct fullbore_overview **overview,
                          fullbore_error *error);

// Samples the activity of the watched processes for this time. A verdict needs many samples between two scans.
//
// Returns 0; -EINVAL if `monitor` is NULL, or the time is negative; -EBUSY while another call uses it.
// Threads: one at a time for one monitor.
int fullbore_monitor_sample(struct fullbore_monitor *monitor,
                            int64_t nanoseconds,
                            fullbore_error *error);

// Returns how long to wait before the next fullbore_monitor_sample of 0 nanoseconds, in nanoseconds, for a
// program that has its own loop; -EINVAL if `monitor` is NULL; -EBUSY while another call uses it.
//
// Threads: one at a time for one monitor.
int64_t fullbore_monitor_next_sample(struct fullbore_monitor *monitor);

// Finds all pipes and processes again, and stores their state in `*overview`. Rates and verdicts are based on the
// samples since earlier scans: for example, scan once a second, and sample in between. Free the overview with
// fullbore_overview_free.
//
// Returns as fullbore_monitor_once.
// Threads: one at a time for one monitor.
int fullbore_monitor_scan(struct fullbore_monitor *monitor,
                          struct fullbore_overview **overview,
                          fullbore_error *error);

// Closes all files that the monitor keeps open, and forgets all processes. An open FIFO keeps its file system busy:
// call this before a long time without scans.
//
// Returns 0; -EINVAL if `monitor` is NULL; -EBUSY while another call uses it.
// Threads: one at a time for one monitor.
int fullbore_monitor_forget(struct fullbore_monitor *monitor,
                            fullbore_error *error);

// Frees a monitor. Its overviews remain valid. NULL is allowed.
//
// Threads: any, once no other call uses this monitor.
void fullbore_monitor_free(struct fullbore_monitor *monitor);

// Returns the number of chains; -EINVAL if `overview` is NULL.
//
// Threads: any, several at a time.
int64_t fullbore_overview_chains(const struct fullbore_overview *overview);

// Returns the number of pipes; -EINVAL if `overview` is NULL.
//
// Threads: any, several at a time.
int64_t fullbore_overview_pipes(const struct fullbore_overview *overview);

// Returns the number of processes that could not be examined, because this user lacks the permission, or because they
// have too many files open; -EINVAL if `overview` is NULL.
//
// Threads: any, several at a time.
int64_t fullbore_overview_unseen(const struct fullbore_overview *overview);

// Returns 1 if /proc shows no processes of other users, otherwise 0; -EINVAL if `overview` is NULL.
//
// Threads: any, several at a time.
int fullbore_overview_others_hidden(const struct fullbore_overview *overview);

// Returns a chain, by its index from 0; NULL if there is none, or `overview` is NULL. It is valid until the overview
// is freed.
//
// Threads: any, several at a time.
const struct fullbore_chain *fullbore_overview_chain(const struct fullbore_overview *overview,
                                                     size_t chain);

// Returns a stage of a chain, by its index from 0; NULL if there is none, or `overview` is NULL. It is valid until the
// overview is freed.
//
// Threads: any, several at a time.
const struct fullbore_stage *fullbore_overview_stage(const struct fullbore_overview *overview,
                                                     size_t chain,
                                                     size_t stage);

// Returns a process of a stage, by its index from 0: the first one names the stage. NULL if there is none, or
// `overview` is NULL. It is valid until the overview is freed.
//
// Threads: any, several at a time.
const struct fullbore_process *fullbore_overview_stage_process(const struct fullbore_overview *overview,
                                                               size_t chain,
                                                               size_t stage,
                                                               size_t process);

// Returns the index of a pipe of a chain, for fullbore_overview_pipe, by its position in the chain from 0, in the
// direction of the bytes; -EINVAL if there is none, or `overview` is NULL.
//
// Threads: any, several at a time.
int64_t fullbore_overview_chain_pipe(const struct fullbore_overview *overview,
                                     size_t chain,
                                     size_t place);

// Returns the index, from 0, of a stage that the verdict of a chain names, by its position among those stages from 0;
// -EINVAL if there is none, or `overview` is NULL.
//
// Threads: any, several at a time.
int64_t fullbore_overview_slow_stage(const struct fullbore_overview *overview,
                                     size_t chain,
                                     size_t place);

// Returns a pipe, by its index from 0; NULL if there is none, or `overview` is NULL. It is valid until the overview is
// freed.
//
// Threads: any, several at a time.
const struct fullbore_pipe_state *fullbore_overview_pipe(const struct fullbore_overview *overview,
                                                         size_t pipe);

// Returns a process that writes to a pipe, by its index from 0; NULL if there is none, or `overview` is NULL. It is
// valid until the overview is freed.
//
// Threads: any, several at a time.
const struct fullbore_process *fullbore_overview_pipe_writer(const struct fullbore_overview *overview,
                                                             size_t pipe,
                                                             size_t process);

// Returns a process that reads from a pipe, by its index from 0; NULL if there is none, or `overview` is NULL. It is
// valid until the overview is freed.
//
// Threads: any, several at a time.
const struct fullbore_process *fullbore_overview_pipe_reader(const struct fullbore_overview *overview,
                                                             size_t pipe,
                                                             size_t process);

// Returns the whole overview as JSON, with the keys of `fullbore top --json`; NULL if `overview` is NULL. It is valid
// until the overview is freed.
//
// Threads: any, several at a time.
const char *fullbore_overview_json(const struct fullbore_overview *overview);

// Frees an overview, and everything that was returned from it. NULL is allowed.
//
// Threads: any, once no other call uses this overview.
void fullbore_overview_free(struct fullbore_overview *overview);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FULLBORE_OBSERVE_H */
