//! Row position bitmaps.

use arrow_array::{Array, BooleanArray, UInt64Array};
use deltaberg_core::bitmap::{self, Framing};
use deltaberg_core::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::{self, InArray};
use crate::enter::enter;

/// Takes a bitmap out of its framing; returns its portable bytes and the number of its positions.
#[pyfunction]
#[pyo3(signature = (data, framing))]
pub fn unframe_bitmap<'py>(py: Python<'py>, data: &[u8], framing: &str) -> PyResult<(Bound<'py, PyBytes>, u64)> {
    let (bitmap, cardinality) = enter(py, || bitmap::unframe(data, Framing::from_name(framing)?))?;
    Ok((PyBytes::new(py, &bitmap), cardinality))
}

/// Returns all positions of a portable bitmap, which must not be more than `most`.
#[pyfunction]
#[pyo3(signature = (bitmap, most))]
pub fn bitmap_positions<'py>(py: Python<'py>, bitmap: &[u8], most: u64) -> PyResult<Bound<'py, PyAny>> {
    let positions = enter(py, || bitmap::positions(bitmap, most))?;
    arrow::array_to_python(py, &positions)
}

/// Encodes ascending positions in a framing.
#[pyfunction]
#[pyo3(signature = (positions, framing))]
pub fn encode_bitmap<'py>(py: Python<'py>, positions: InArray, framing: &str) -> PyResult<Bound<'py, PyBytes>> {
    let positions: &UInt64Array = arrow::downcast(py, &positions.0, "an array of uint64")?;
    let data = enter(py, || {
        if positions.null_count() > 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "row positions cannot be null"));
        }
        bitmap::encode(positions.values(), Framing::from_name(framing)?)
    })?;
    Ok(PyBytes::new(py, &data))
}

/// Returns a mask of the rows of a range that the bitmap does not contain.
#[pyfunction]
#[pyo3(signature = (bitmap, start, length))]
pub fn keep_mask<'py>(py: Python<'py>, bitmap: &[u8], start: u64, length: usize) -> PyResult<Bound<'py, PyAny>> {
    let mask = enter(py, || bitmap::keep_mask(bitmap, start, length))?;
    arrow::array_to_python(py, &BooleanArray::new(mask, None))
}
