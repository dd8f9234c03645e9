//! The paths of live files.

use arrow_array::Int64Array;
use pyo3::prelude::*;

use crate::arrow::{self, InArray};
use crate::enter::enter;

/// Distinct paths, which are compared byte by byte.
#[pyclass(frozen, module = "deltaberg._native")]
pub struct PathSet(deltaberg_core::PathSet);

#[pymethods]
impl PathSet {
    /// Takes the paths of arrays, each of which may consist of chunks.
    #[new]
    #[pyo3(signature = (arrays))]
    fn new(py: Python<'_>, arrays: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut set = deltaberg_core::PathSet::default();
        for array in arrays.try_iter()? {
            let array = array?;
            match array.getattr_opt("chunks")? {
                Some(chunks) => {
                    for chunk in chunks.try_iter()? {
                        add(py, &mut set, &chunk?)?;
                    }
                }
                None => add(py, &mut set, &array)?,
            }
        }
        set.shrink();
        Ok(Self(set))
    }

    /// Returns how many distinct paths there are.
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Returns which paths of an array are in the set, and remembers that it was asked about these.
    #[pyo3(signature = (paths))]
    fn contains<'py>(&self, py: Python<'py>, paths: InArray) -> PyResult<Bound<'py, PyAny>> {
        let found = enter(py, || self.0.contains(&paths.0))?;
        arrow::array_to_python(py, &found)
    }

    /// Returns the number of each path of an array, null for those that are not in the set, as `contains` does it.
    #[pyo3(signature = (paths))]
    fn numbers<'py>(&self, py: Python<'py>, paths: InArray) -> PyResult<Bound<'py, PyAny>> {
        let found = enter(py, || self.0.numbers(&paths.0))?;
        arrow::array_to_python(py, &found)
    }

    /// Returns paths by their numbers.
    #[pyo3(signature = (numbers))]
    fn texts<'py>(&self, py: Python<'py>, numbers: InArray) -> PyResult<Bound<'py, PyAny>> {
        let numbers: &Int64Array = arrow::downcast(py, &numbers.0, "an array of int64")?;
        let found = enter(py, || self.0.texts(numbers))?;
        arrow::array_to_python(py, &found)
    }

    /// Returns the paths of the set about which `contains` was not asked.
    fn unasked<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = enter(py, || self.0.unasked())?;
        arrow::array_to_python(py, &found)
    }
}

fn add(py: Python<'_>, set: &mut deltaberg_core::PathSet, array: &Bound<'_, PyAny>) -> PyResult<()> {
    let array: InArray = array.extract()?;
    enter(py, || set.add(&array.0))
}
