//! Bounds and counts of columns, from manifests.

use arrow_array::MapArray;
use deltaberg_core::Result;
use deltaberg_core::bounds::{self, BoundType};
use pyo3::prelude::*;

use crate::arrow::{self, InArray};
use crate::enter::{enter, threads as thread_count};

/// Parses typed columns from maps of field id to bytes.
#[pyfunction]
#[pyo3(signature = (bounds, fields, threads=0))]
pub fn parse_bounds(
    py: Python<'_>,
    bounds: InArray,
    fields: Vec<(i32, String)>,
    threads: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let maps: &MapArray = arrow::downcast(py, &bounds.0, "an array of maps")?;
    let batch = enter(py, || {
        let field = |(id, name): (i32, String)| Ok((id, BoundType::from_name(&name)?));
        let fields = fields.into_iter().map(field).collect::<Result<Vec<_>>>()?;
        bounds::parse_bounds(maps, &fields, thread_count(threads))
    })?;
    arrow::batch_to_python(py, batch)
}

/// Parses columns from maps of field id to count.
#[pyfunction]
#[pyo3(signature = (counts, ids, threads=0))]
pub fn parse_counts(py: Python<'_>, counts: InArray, ids: Vec<i32>, threads: usize) -> PyResult<Bound<'_, PyAny>> {
    let maps: &MapArray = arrow::downcast(py, &counts.0, "an array of maps")?;
    let batch = enter(py, || bounds::parse_counts(maps, &ids, thread_count(threads)))?;
    arrow::batch_to_python(py, batch)
}
