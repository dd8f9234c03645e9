//! Kernel errors become exceptions that are defined in Python, so that both kernels raise the same
//! classes.

use deltaberg_core::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

/// The name of a kind's exception class in `deltaberg.errors`.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::CorruptLog => "CorruptLogError",
        ErrorKind::CorruptDeletionVector => "CorruptDeletionVectorError",
        ErrorKind::InvalidZ85 => "InvalidZ85Error",
        ErrorKind::InvalidPartitionValue => "InvalidPartitionValueError",
        ErrorKind::CorruptAvro => "CorruptAvroError",
        ErrorKind::CorruptParquet => "CorruptDataFileError",
        ErrorKind::InvalidArgument => "InvalidArgumentError",
        ErrorKind::TooLarge => "TooLargeError",
    }
}

/// The class of every kind, for the test that each of them exists in Python.
pub fn names() -> Vec<(String, &'static str)> {
    ErrorKind::ALL.iter().map(|kind| (format!("{kind:?}"), class_name(*kind))).collect()
}

/// The exception for a kernel's error.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    raise(py, class_name(error.kind()), error.message(), error.context()).unwrap_or_else(|failed| failed)
}

/// The exception for a panic, which is always a bug in deltaberg.
pub fn panicked(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "KernelPanicError", message, &[]).unwrap_or_else(|failed| failed)
}

fn raise(py: Python<'_>, class: &str, message: &str, context: &[(&'static str, String)]) -> PyResult<PyErr> {
    let class = py.import("deltaberg.errors")?.getattr(class)?;
    let context: Bound<'_, PyDict> = context.iter().map(|(name, value)| (*name, value.as_str())).into_py_dict(py)?;
    Ok(PyErr::from_value(class.call((message,), Some(&context))?))
}
