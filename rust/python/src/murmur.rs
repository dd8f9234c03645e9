//! Hashes and buckets of values.

use deltaberg_core::murmur;
use pyo3::prelude::*;

use crate::arrow::{self, InBytes};
use crate::enter::{enter, threads as thread_count};

/// Returns the hash of every value.
#[pyfunction]
#[pyo3(signature = (values, threads=0))]
pub fn hash32(py: Python<'_>, values: InBytes, threads: usize) -> PyResult<Bound<'_, PyAny>> {
    let hashes = enter(py, || murmur::hash32(&values.0, thread_count(threads)))?;
    arrow::array_to_python(py, &hashes)
}

/// Returns the bucket of every value.
#[pyfunction]
#[pyo3(signature = (values, buckets, threads=0))]
pub fn bucket(py: Python<'_>, values: InBytes, buckets: i64, threads: usize) -> PyResult<Bound<'_, PyAny>> {
    let numbers = enter(py, || murmur::bucket(&values.0, buckets, thread_count(threads)))?;
    arrow::array_to_python(py, &numbers)
}
