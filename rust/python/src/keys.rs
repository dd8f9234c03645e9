//! Sets of keys.

use pyo3::prelude::*;

use crate::arrow::{self, InBatch};
use crate::enter::enter;

/// An index of keys, which only the kernels can look into.
#[pyclass(frozen, module = "deltaberg._native")]
pub struct KeyIndex(deltaberg_core::KeyIndex);

/// Indexes the rows of a batch as keys.
#[pyfunction]
#[pyo3(signature = (keys))]
pub fn index_keys(py: Python<'_>, keys: InBatch) -> PyResult<KeyIndex> {
    enter(py, || deltaberg_core::KeyIndex::new(&keys.0)).map(KeyIndex)
}

/// Returns a mask of the rows that equal a key in all columns.
#[pyfunction]
#[pyo3(signature = (index, rows))]
pub fn contains_keys<'py>(py: Python<'py>, index: &Bound<'py, KeyIndex>, rows: InBatch) -> PyResult<Bound<'py, PyAny>> {
    let index = index.get();
    let found = enter(py, || index.0.contains(&rows.0))?;
    arrow::array_to_python(py, &found)
}
