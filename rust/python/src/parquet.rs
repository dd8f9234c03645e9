//! Parquet data files.

use std::sync::{Mutex, PoisonError};

use arrow_array::{BooleanArray, UInt8Array};
use deltaberg_core::Decoding;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arrow::{self, InArray, InBytes, InSchema};
use crate::enter::{self, enter};

/// Rows of a Parquet file, decoded from the bytes of its column chunks.
#[pyclass(frozen, module = "deltaberg._native")]
pub struct ParquetRows(Mutex<deltaberg_core::ParquetRows>);

#[pymethods]
impl ParquetRows {
    /// Takes the metadata of a file, the types that the wanted columns are read as, and the wanted leaves.
    #[new]
    #[pyo3(signature = (footer, schema, leaves))]
    fn new(py: Python<'_>, footer: PyBackedBytes, schema: InSchema, leaves: Vec<usize>) -> PyResult<Self> {
        let rows = enter(py, || deltaberg_core::ParquetRows::new(&footer, &schema.0, leaves))?;
        Ok(Self(Mutex::new(rows)))
    }

    /// Returns where the chunks of a row group begin, and how many bytes they have.
    #[pyo3(signature = (group))]
    fn ranges(&self, py: Python<'_>, group: usize) -> PyResult<Vec<(u64, u64)>> {
        enter(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).ranges(group))
    }

    /// Begins to read row groups from blocks of bytes: the rows that a mask keeps, or all.
    #[pyo3(signature = (groups, blocks, batch_size, threads = 1, kept = None))]
    fn begin(
        &self,
        py: Python<'_>,
        groups: Vec<usize>,
        blocks: Vec<(u64, InBytes)>,
        batch_size: usize,
        threads: usize,
        kept: Option<InArray>,
    ) -> PyResult<()> {
        let blocks = blocks
            .iter()
            .map(|(begin, block)| Ok((*begin, arrow::downcast::<UInt8Array>(py, &block.0, "bytes")?.clone())))
            .collect::<PyResult<_>>()?;
        let kept = kept.map(|kept| Ok::<_, PyErr>(arrow::downcast::<BooleanArray>(py, &kept.0, "a mask")?.clone()));
        let how = Decoding { kept: kept.transpose()?, batch_size, threads: enter::threads(threads) };
        enter(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).begin(&groups, blocks, &how))
    }

    /// Decodes the next rows; None after the last.
    fn decode<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = enter(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).decode())?;
        found.map(|batch| arrow::batch_to_python(py, batch)).transpose()
    }
}
