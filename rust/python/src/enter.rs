//! The one way into every kernel.

use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread::available_parallelism;

use pyo3::prelude::*;

use crate::error;

/// Why a kernel did not finish: an error of its own, or one of the Python code that it called.
pub enum Failure {
    /// The kernel's own error.
    Kernel(deltaberg_core::Error),
    /// What a Python iterator raised, which may be `KeyboardInterrupt`.
    Python(PyErr),
}

impl From<deltaberg_core::Error> for Failure {
    fn from(error: deltaberg_core::Error) -> Self {
        Self::Kernel(error)
    }
}

/// Runs `work` without the interpreter lock, so that other Python threads can run. A panic becomes an
/// exception, and a signal that arrives meanwhile is handled before the result is returned.
pub fn enter<T: Send, E: Into<Failure> + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    let result = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    py.check_signals()?;
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(match failure.into() {
            Failure::Kernel(failure) => error::to_python(py, &failure),
            Failure::Python(raised) => raised,
        }),
        Err(panic) => Err(error::panicked(py, &text_of(panic.as_ref()))),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a kernel panicked").to_owned()
}

/// The number of threads to use. Asking for 0 means one per processor.
pub fn threads(asked: usize) -> usize {
    // Asking the system takes as long as a small kernel.
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    if asked > 0 { asked } else { *PROCESSORS.get_or_init(|| available_parallelism().map_or(1, NonZero::get)) }
}
