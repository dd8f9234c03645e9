//! Locations of files.

use arrow_array::StringArray;
use pyo3::prelude::*;

use crate::arrow::{self, InArray};
use crate::enter::enter;

/// Returns the locations of names below the table; null for every other path.
#[pyfunction]
#[pyo3(signature = (paths, prefix, base, encoded))]
pub fn locate_paths<'py>(
    py: Python<'py>,
    paths: InArray,
    prefix: &str,
    base: &str,
    encoded: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let paths: &StringArray = arrow::downcast(py, &paths.0, "an array of strings")?;
    let located = enter(py, || deltaberg_core::locate_paths(paths, prefix, base, encoded))?;
    arrow::array_to_python(py, &located)
}
