//! Keys that rows are looked up by.

use pyo3::prelude::*;

use crate::arrow::{self, InBatch};
use crate::enter::{enter, threads};

/// An index of keys, which only the kernels can look into.
#[pyclass(frozen, module = "deltaberg._native")]
pub struct KeyIndex(deltaberg_core::KeyIndex);

/// Indexes the rows of a batch as keys.
#[pyfunction]
#[pyo3(signature = (keys, null_safe = None))]
pub fn index_keys(py: Python<'_>, keys: InBatch, null_safe: Option<Vec<bool>>) -> PyResult<KeyIndex> {
    enter(py, || deltaberg_core::KeyIndex::new(&keys.0, null_safe)).map(KeyIndex)
}

/// Returns a mask of the rows that equal a key in all columns.
#[pyfunction]
#[pyo3(signature = (index, rows))]
pub fn contains_keys<'py>(py: Python<'py>, index: &Bound<'py, KeyIndex>, rows: InBatch) -> PyResult<Bound<'py, PyAny>> {
    let index = index.get();
    let found = enter(py, || index.0.contains(&rows.0))?;
    arrow::array_to_python(py, &found)
}

/// Returns the number of the first key that each row equals in all columns.
#[pyfunction]
#[pyo3(signature = (index, rows, threads = 0))]
pub fn find_keys<'py>(
    py: Python<'py>,
    index: &Bound<'py, KeyIndex>,
    rows: InBatch,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (index, threads) = (index.get(), self::threads(threads));
    let found = enter(py, || index.0.find(&rows.0, threads))?;
    arrow::array_to_python(py, &found)
}
