//! Ranges of values, and the places of rows on curves through them.

use deltaberg_core::curves;
use pyo3::prelude::*;

use crate::arrow::{self, InBatch, InBytes};
use crate::enter::{enter, threads as thread_count};

/// Returns the number of the range of every value.
#[pyfunction]
#[pyo3(signature = (values, boundaries, threads=0))]
pub fn range_ids(py: Python<'_>, values: InBytes, boundaries: InBytes, threads: usize) -> PyResult<Bound<'_, PyAny>> {
    let ids = enter(py, || curves::range_ids(&values.0, &boundaries.0, thread_count(threads)))?;
    arrow::array_to_python(py, &ids)
}

/// Returns for every row a key by which rows sort along a curve.
#[pyfunction]
#[pyo3(signature = (ids, bits, curve, threads=0))]
pub fn curve_keys<'py>(
    py: Python<'py>,
    ids: InBatch,
    bits: i64,
    curve: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let curve = enter(py, || curves::Curve::named(curve))?;
    let keys = enter(py, || curves::curve_keys(&ids.0, bits, curve, thread_count(threads)))?;
    arrow::array_to_python(py, &keys)
}
