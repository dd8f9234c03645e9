//! Fingerprints of bytes.

use deltaberg_core::Error;
use pyo3::prelude::*;

use crate::enter::enter;

/// Returns a number that tells bytes from other bytes.
#[pyfunction]
#[pyo3(signature = (data))]
pub fn fingerprint(py: Python<'_>, data: &[u8]) -> PyResult<u64> {
    enter(py, || Ok::<_, Error>(deltaberg_core::fingerprint(data)))
}
