//! Sketches that estimate how many distinct values there are.

use deltaberg_core::{unite_sketches as unite, update_sketch as update};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::InBytes;
use crate::enter::enter;

/// Returns the bytes of a sketch with further values.
#[pyfunction]
#[pyo3(signature = (sketch, values))]
pub fn update_sketch<'py>(py: Python<'py>, sketch: &[u8], values: InBytes) -> PyResult<Bound<'py, PyBytes>> {
    let found = enter(py, || update(sketch, &values.0))?;
    Ok(PyBytes::new(py, &found))
}

/// Returns the bytes of the sketch of the values of all sketches.
#[pyfunction]
#[pyo3(signature = (sketches))]
pub fn unite_sketches(py: Python<'_>, sketches: Vec<Vec<u8>>) -> PyResult<Bound<'_, PyBytes>> {
    let sketches: Vec<&[u8]> = sketches.iter().map(Vec::as_slice).collect();
    let found = enter(py, || unite(&sketches))?;
    Ok(PyBytes::new(py, &found))
}
