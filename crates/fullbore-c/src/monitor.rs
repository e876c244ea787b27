//! Watching pipelines from outside.

use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Instant;

use fullbore_observe::census::scope::{Scope, Whose};
use fullbore_observe::overview::Overview;
use fullbore_observe::{Error, Monitor};

use crate::arguments::{only, place, span, text};
use crate::call::{
    FULLBORE_CAUSE_NOT_FOUND, FULLBORE_CAUSE_SYSTEM, FULLBORE_CAUSE_UNSUPPORTED, Failure,
    fullbore_error, status,
};
use crate::handle::{Exclusive, counted, done, free, make, object};

/// A flag of fullbore_monitor_new: include pipes whose two ends are both open in every process that has them open.
pub const FULLBORE_FLAG_ALL_PIPES: u32 = 64;

/// Observes the pipelines of running processes repeatedly, without touching their bytes.
pub struct fullbore_monitor(Exclusive<Monitor>);

object!(fullbore_monitor is "monitor", of Monitor);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (errno, cause) = match &error {
            Error::Unsupported(_) => (libc::EOPNOTSUPP, FULLBORE_CAUSE_UNSUPPORTED),
            Error::NotFound(_) => (libc::ESRCH, FULLBORE_CAUSE_NOT_FOUND),
            Error::System { why, .. } => (
                why.raw_os_error().unwrap_or(libc::EIO),
                FULLBORE_CAUSE_SYSTEM,
            ),
        };
        Failure::new(errno, cause, error.to_string())
    }
}

/// Creates and stores a monitor of these pipelines.
fn monitor_of(
    monitor: Option<&mut MaybeUninit<*mut fullbore_monitor>>,
    error: Option<&mut fullbore_error>,
    flags: u32,
    whose: impl FnOnce() -> Result<Whose, Failure>,
) -> c_int {
    status(error, || {
        make(monitor, || {
            only(flags, FULLBORE_FLAG_ALL_PIPES, 0)?;
            let (whose, all) = (whose()?, flags & FULLBORE_FLAG_ALL_PIPES != 0);
            let monitor = Monitor::new(Scope { whose, all })?;
            Ok(fullbore_monitor(Exclusive::new(monitor)))
        })
    })
}

/// Creates a monitor of the pipes of all processes that this user may see, except the calling process, and stores it in
/// `*monitor`. Free it with fullbore_monitor_free.
///
/// It keeps files of /proc open, and therefore raises this process's limit on open files to the maximum
/// (RLIMIT_NOFILE). A program that uses select(2), which supports no descriptor above 1023, should run the monitor in a
/// separate process.
///
/// `flags` is 0 or FULLBORE_FLAG_ALL_PIPES.
///
/// Returns 0; -EOPNOTSUPP if /proc is not mounted; -EINVAL for unknown flags, and if `monitor` is NULL.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_new(
    flags: u32,
    monitor: Option<&mut MaybeUninit<*mut fullbore_monitor>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    monitor_of(monitor, error, flags, || Ok(Whose::Everybody))
}

/// Creates a monitor like fullbore_monitor_new, but of the pipelines of a process and all its descendants.
///
/// Returns as fullbore_monitor_new; -ESRCH if there is no such process; -EOPNOTSUPP if /proc hides it from
/// this user; -EINVAL if `pid` is not positive.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_new_tree(
    pid: i32,
    flags: u32,
    monitor: Option<&mut MaybeUninit<*mut fullbore_monitor>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    monitor_of(monitor, error, flags, || match u32::try_from(pid) {
        Ok(pid) if pid > 0 => Ok(Whose::Tree(pid)),
        _ => Err(Failure::invalid(format!(
            "{pid} is not the id of a process"
        ))),
    })
}

/// Creates a monitor like fullbore_monitor_new, but of the pipelines of processes with this name, and of FIFOs with
/// this name.
///
/// Returns as fullbore_monitor_new; -EINVAL if `name` is NULL or not UTF-8.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_new_named(
    name: *const c_char,
    flags: u32,
    monitor: Option<&mut MaybeUninit<*mut fullbore_monitor>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    monitor_of(monitor, error, flags, || {
        Ok(Whose::Named(text("name", name)?.to_owned()))
    })
}

/// Stores the text of an overview.
fn tell(
    overview: Option<&mut MaybeUninit<*mut c_char>>,
    find: impl FnOnce() -> Result<Overview, Error>,
) -> Result<(), Failure> {
    let place = place("overview", overview)?;
    place.write(ptr::null_mut());
    let json = serde_json::to_string(&find()?).expect("an overview can be written as JSON");
    let json = CString::new(json).expect("JSON has no NUL");
    place.write(json.into_raw());
    Ok(())
}

/// Observes for this time, and stores an overview of all pipelines and pipes, with rates and verdicts, in `*overview`,
/// for programs that need only one. It is the text, ending with a NUL, of a JSON object with the keys of `fullbore top
/// --json`, which docs/top.md lists. Free it with fullbore_overview_free.
///
/// Returns 0; -ESRCH if the monitored process has exited; -EINVAL if an argument is NULL, or the time is negative;
/// -EBUSY while another call uses the monitor.
/// Threads: one at a time for one monitor.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_once(
    monitor: *mut fullbore_monitor,
    nanoseconds: i64,
    overview: Option<&mut MaybeUninit<*mut c_char>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, monitor, |monitor| {
        let time = not_negative(nanoseconds)?;
        tell(overview, || monitor.once(span(time)))
    })
}

/// Samples the activity of the watched processes for this time. A verdict needs many samples between two scans.
///
/// Returns 0; -EINVAL if `monitor` is NULL, or the time is negative; -EBUSY while another call uses it.
/// Threads: one at a time for one monitor.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_sample(
    monitor: *mut fullbore_monitor,
    nanoseconds: i64,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, monitor, |monitor| {
        match not_negative(nanoseconds)? {
            0 => monitor.sample(),
            time => monitor.sample_until(Instant::now() + span(time)),
        }
        Ok(())
    })
}

/// Returns how long to wait before the next fullbore_monitor_sample of 0 nanoseconds, in nanoseconds, for a
/// program that has its own loop; -EINVAL if `monitor` is NULL; -EBUSY while another call uses it.
///
/// Threads: one at a time for one monitor.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_next_sample(monitor: *mut fullbore_monitor) -> i64 {
    counted(None, monitor, |monitor| {
        Ok(monitor.next_sample().as_nanos() as u64)
    })
}

/// Finds all pipes and processes again, and stores their state in `*overview`, as fullbore_monitor_once does. Rates and
/// verdicts are based on the samples since earlier scans: for example, scan once a second, and sample in between. Free
/// the overview with fullbore_overview_free.
///
/// Returns as fullbore_monitor_once.
/// Threads: one at a time for one monitor.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_scan(
    monitor: *mut fullbore_monitor,
    overview: Option<&mut MaybeUninit<*mut c_char>>,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, monitor, |monitor| tell(overview, || monitor.scan()))
}

/// Closes all files that the monitor keeps open, and forgets all processes. An open FIFO keeps its file system busy:
/// call this before a long time without scans.
///
/// Returns 0; -EINVAL if `monitor` is NULL; -EBUSY while another call uses it.
/// Threads: one at a time for one monitor.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_forget(
    monitor: *mut fullbore_monitor,
    error: Option<&mut fullbore_error>,
) -> c_int {
    done(error, monitor, |monitor| {
        monitor.forget();
        Ok(())
    })
}

/// Frees a monitor. Its overviews remain valid. NULL is allowed.
///
/// Threads: any, once no other call uses this monitor.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_monitor_free(monitor: *mut fullbore_monitor) {
    free(monitor);
}

/// Frees an overview. NULL is allowed.
///
/// Threads: any, once no other thread uses this overview.
#[unsafe(no_mangle)]
pub extern "C" fn fullbore_overview_free(overview: *mut c_char) {
    if !overview.is_null() {
        // SAFETY: the header requires an overview that was not freed before.
        drop(unsafe { CString::from_raw(overview) });
    }
}

/// A day: longer than any useful call, and far from the end of all clocks.
const LONGEST: i64 = 24 * 3600 * 1_000_000_000;

fn not_negative(nanoseconds: i64) -> Result<i64, Failure> {
    match nanoseconds {
        ..0 => Err(Failure::invalid("the time is negative")),
        LONGEST.. => Err(Failure::invalid("the time is longer than a day")),
        time => Ok(time),
    }
}
