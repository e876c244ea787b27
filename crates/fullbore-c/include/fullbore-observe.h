// fullbore-observe.h: watches pipelines of running processes, and says which stage is slow.
//
// These functions are in the same library as those of fullbore.h, unless it was built without its feature
// `observe`. The conventions of fullbore.h hold for them, too.


#ifndef FULLBORE_OBSERVE_H
#define FULLBORE_OBSERVE_H

#include "fullbore.h"

// A flag of fullbore_monitor_new: include pipes whose two ends are both open in every process that has them open.
#define FULLBORE_FLAG_ALL_PIPES 64

// Observes the pipelines of running processes repeatedly, without touching their bytes.
typedef struct fullbore_monitor fullbore_monitor;

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

// Observes for this time, and stores an overview of all pipelines and pipes, with rates and verdicts, in `*overview`,
// for programs that need only one. It is the text, ending with a NUL, of a JSON object with the keys of `fullbore top
// --json`, which docs/top.md lists. Free it with fullbore_overview_free.
//
// Returns 0; -ESRCH if the monitored process has exited; -EINVAL if an argument is NULL, or the time is negative;
// -EBUSY while another call uses the monitor.
// Threads: one at a time for one monitor.
int fullbore_monitor_once(struct fullbore_monitor *monitor,
                          int64_t nanoseconds,
                          char **overview,
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

// Finds all pipes and processes again, and stores their state in `*overview`, as fullbore_monitor_once does. Rates and
// verdicts are based on the samples since earlier scans: for example, scan once a second, and sample in between. Free
// the overview with fullbore_overview_free.
//
// Returns as fullbore_monitor_once.
// Threads: one at a time for one monitor.
int fullbore_monitor_scan(struct fullbore_monitor *monitor,
                          char **overview,
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

// Frees an overview. NULL is allowed.
//
// Threads: any, once no other thread uses this overview.
void fullbore_overview_free(char *overview);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FULLBORE_OBSERVE_H */
