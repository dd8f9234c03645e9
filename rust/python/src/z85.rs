//! Z85 text.

use deltaberg_core::z85;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::enter::enter;

/// Encodes bytes, whose number must be a multiple of 4, as Z85 text.
#[pyfunction]
#[pyo3(signature = (data))]
pub fn z85_encode(py: Python<'_>, data: &[u8]) -> PyResult<String> {
    enter(py, || z85::encode(data))
}

/// Decodes Z85 text to bytes.
#[pyfunction]
#[pyo3(signature = (text))]
pub fn z85_decode<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyBytes>> {
    let data = enter(py, || z85::decode(text))?;
    Ok(PyBytes::new(py, &data))
}
