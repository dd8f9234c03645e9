//! Sets of rows.

use pyo3::prelude::*;

use crate::arrow::{self, InBatch};
use crate::enter::enter;

/// Keys that can be looked up; what is in it is the kernels' own.
#[pyclass(frozen, module = "deltaberg._native")]
pub struct KeyIndex(deltaberg_core::KeyIndex);

/// Makes an index of the rows of a batch.
#[pyfunction]
#[pyo3(signature = (keys))]
pub fn index_keys(py: Python<'_>, keys: InBatch) -> PyResult<KeyIndex> {
    enter(py, || deltaberg_core::KeyIndex::new(&keys.0)).map(KeyIndex)
}

/// Says of each row of a batch whether it is a key.
#[pyfunction]
#[pyo3(signature = (index, rows))]
pub fn contains_keys<'py>(py: Python<'py>, index: &Bound<'py, KeyIndex>, rows: InBatch) -> PyResult<Bound<'py, PyAny>> {
    let index = index.get();
    let found = enter(py, || index.0.contains(&rows.0))?;
    arrow::array_to_python(py, &found)
}
