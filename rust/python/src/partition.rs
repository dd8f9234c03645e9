//! Partition values.

use arrow_array::MapArray;
use deltaberg_core::{Error, PrimitiveType};
use pyo3::prelude::*;

use crate::arrow::{self, InArray};
use crate::enter::enter;

/// Parses typed columns from maps of string to string.
#[pyfunction]
#[pyo3(signature = (values, columns))]
pub fn parse_partition_values(
    py: Python<'_>,
    values: InArray,
    columns: Vec<(String, String)>,
) -> PyResult<Bound<'_, PyAny>> {
    let maps: &MapArray = arrow::downcast(py, &values.0, "an array of maps")?;
    let batch = enter(py, || {
        let columns = columns
            .into_iter()
            .map(|(name, primitive)| Ok((name, PrimitiveType::from_name(&primitive)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        deltaberg_core::parse_partition_values(maps, &columns)
    })?;
    arrow::batch_to_python(py, batch)
}
