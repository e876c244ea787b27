//! An object that several threads may use, one at a time, while the interpreter's lock is released.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// How long to wait for another thread before handling signals.
const A_WHILE: Duration = Duration::from_millis(50);

/// The number of forks between the process that first imported the module and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Records that this process is a new child (`os.register_at_fork`).
#[pyfunction]
pub fn _after_fork() {
    FORKS.fetch_add(1, Ordering::AcqRel);
}

/// A value that one thread at a time may use, until it is closed. Waiting threads get it in order: a thread that uses
/// it in a loop releases it only while it holds the interpreter's lock, so otherwise the others would always find it in
/// use.
pub struct Turns<T> {
    state: Mutex<State<T>>,
    freed: Condvar,
    /// The process that it belongs to.
    forks: u64,
}

struct State<T> {
    value: Value<T>,
    /// The threads of the waiting calls, in order. A thread has several if a signal handler uses the object that its
    /// thread is waiting for.
    queue: VecDeque<usize>,
}

enum Value<T> {
    Free(Box<T>),
    /// This thread uses the value.
    Taken(usize),
    Closed,
}

/// The value while this thread uses it.
pub struct Turn<'a, T> {
    turns: &'a Turns<T>,
    value: Option<Box<T>>,
}

impl<T: Send> Turns<T> {
    pub fn new(value: T) -> Self {
        Self {
            state: Mutex::new(State {
                value: Value::Free(Box::new(value)),
                queue: VecDeque::new(),
            }),
            freed: Condvar::new(),
            forks: FORKS.load(Ordering::Acquire),
        }
    }

    /// Returns whether it was created in this process, and not in a parent.
    pub fn is_here(&self) -> bool {
        self.forks == FORKS.load(Ordering::Acquire)
    }

    pub fn is_closed(&self) -> bool {
        self.is_here() && matches!(self.lock().value, Value::Closed)
    }

    /// Waits until no other thread uses the value, and takes it.
    ///
    /// # Errors
    /// `ValueError` if it is closed, or belongs to the parent process; `RuntimeError` if this thread already uses it: a
    /// signal handler uses the object that it has interrupted.
    pub fn take(&self, py: Python<'_>) -> PyResult<Turn<'_, T>> {
        if !self.is_here() {
            return Err(PyValueError::new_err(
                "this object belongs to the parent process: make one after fork",
            ));
        }
        let me = this_thread();
        let mut state = self.lock();
        if let Some(value) = state.take(me)? {
            return Ok(self.turn(value));
        }
        state.queue.push_back(me);
        drop(state);
        let taken = self.wait(py, me);
        let mut state = self.lock();
        if let Some(last) = state.queue.iter().rposition(|&thread| thread == me) {
            state.queue.remove(last);
        }
        self.freed.notify_all();
        taken
    }

    /// Runs `work` on the value without taking it, if no thread uses it or waits for it. Returns `None` otherwise, or
    /// if `work` does. The lock is held meanwhile, so `work` must neither wait nor run Python code.
    #[inline]
    pub fn at_once<R>(&self, work: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        let mut state = self.is_here().then(|| self.lock())?;
        match &mut *state {
            State {
                value: Value::Free(value),
                queue,
                ..
            } if queue.is_empty() => work(value),
            _ => None,
        }
    }

    fn wait(&self, py: Python<'_>, me: usize) -> PyResult<Turn<'_, T>> {
        loop {
            py.detach(|| {
                let state = self.lock();
                if state.is_to_wait(me) {
                    drop(self.freed.wait_timeout(state, A_WHILE));
                }
            });
            py.check_signals()?;
            if let Some(value) = self.lock().take(me)? {
                return Ok(self.turn(value));
            }
        }
    }

    fn turn(&self, value: Box<T>) -> Turn<'_, T> {
        Turn {
            turns: self,
            value: Some(value),
        }
    }

    /// Closes the object, which has no other references, and returns its value.
    pub fn take_out(&mut self) -> Option<T> {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut state.value, Value::Closed) {
            Value::Free(value) => Some(*value),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Returns whether another thread uses the value, or is first in the queue.
    fn is_to_wait(&self, me: usize) -> bool {
        match self.value {
            Value::Free(_) => self.queue.front().is_some_and(|&first| first != me),
            Value::Taken(thread) => thread != me,
            Value::Closed => false,
        }
    }

    /// Takes the value, or returns `None` if the thread has to wait.
    fn take(&mut self, me: usize) -> PyResult<Option<Box<T>>> {
        if self.is_to_wait(me) {
            return Ok(None);
        }
        match std::mem::replace(&mut self.value, Value::Taken(me)) {
            Value::Free(value) => Ok(Some(value)),
            Value::Taken(_) => Err(PyRuntimeError::new_err(
                "reentrant call: this thread is inside of a call of the same object",
            )),
            Value::Closed => {
                self.value = Value::Closed;
                Err(PyValueError::new_err("I/O operation on closed file"))
            }
        }
    }
}

impl<T> Turn<'_, T> {
    /// Closes the object, and returns its value.
    pub fn close(mut self) -> T {
        *self.value.take().expect(TAKEN)
    }
}

/// Only `close` takes it, and consumes the turn.
const TAKEN: &str = "a turn has its value until it is closed";

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect(TAKEN)
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect(TAKEN)
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let lock = self.turns.state.lock();
        let mut state = lock.unwrap_or_else(PoisonError::into_inner);
        state.value = match self.value.take() {
            Some(value) => Value::Free(value),
            None => Value::Closed,
        };
        // Notifying is a system call, which would take as long as reading two lines.
        if !state.queue.is_empty() {
            // Each thread checks its own position in the queue.
            self.turns.freed.notify_all();
        }
    }
}

/// Returns a number that no other running thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}
