//! Statistics.

use arrow_array::{Int64Array, StringArray, StructArray};
use deltaberg_core::stats::{self, StatsLeaf};
use deltaberg_core::{PrimitiveType, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyIterator;

use crate::arrow::{self, InArray, InBatch};
use crate::enter::{Failure, enter, threads as thread_count};

/// A wanted column: the physical names on the path from the root, and the primitive type.
type Leaf = (Vec<String>, Option<String>);

/// Parses the statistics of some columns.
#[pyfunction]
#[pyo3(signature = (stats, leaves, threads=0))]
pub fn parse_stats(py: Python<'_>, stats: InArray, leaves: Vec<Leaf>, threads: usize) -> PyResult<Bound<'_, PyAny>> {
    let texts: &StringArray = arrow::downcast(py, &stats.0, "an array of strings")?;
    let batches = enter(py, || stats::parse_stats(texts, &stats_leaves(leaves)?, thread_count(threads)))?;
    arrow::table_to_python(py, batches)
}

/// Parses statistics from the bytes of commits.
#[pyfunction]
#[pyo3(signature = (versions, places, commits, leaves, threads=0))]
pub fn parse_log_stats<'py>(
    py: Python<'py>,
    versions: InArray,
    places: InArray,
    commits: &Bound<'py, PyAny>,
    leaves: Vec<Leaf>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let versions: &Int64Array = arrow::downcast(py, &versions.0, "an array of int64")?;
    let places: &StructArray = arrow::downcast(py, &places.0, "an array of places")?;
    let commits: Py<PyIterator> = commits.try_iter()?.unbind();
    let batches = enter(py, || {
        let leaves = stats_leaves(leaves)?;
        let next = || next_commit(&commits).map_err(Failure::Python);
        stats::parse_log_stats(versions, places, next, &leaves, thread_count(threads))
    })?;
    arrow::table_to_python(py, batches)
}

/// Returns the texts of statistics at places in the bytes of a commit.
#[pyfunction]
#[pyo3(signature = (data, places, threads=0))]
pub fn stats_texts(py: Python<'_>, data: PyBackedBytes, places: InArray, threads: usize) -> PyResult<Bound<'_, PyAny>> {
    let places: &StructArray = arrow::downcast(py, &places.0, "an array of places")?;
    let texts = enter(py, || stats::stats_texts(&data, places, thread_count(threads)))?;
    arrow::array_to_python(py, &texts)
}

/// Writes statistics as JSON text.
#[pyfunction]
#[pyo3(signature = (statistics, paths, tight, threads=0))]
pub fn format_stats(
    py: Python<'_>,
    statistics: InBatch,
    paths: Vec<Vec<String>>,
    tight: bool,
    threads: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let texts = enter(py, || stats::format_stats(&statistics.0, &paths, tight, thread_count(threads)))?;
    arrow::array_to_python(py, &texts)
}

fn next_commit(commits: &Py<PyIterator>) -> PyResult<Option<(i64, Option<PyBackedBytes>)>> {
    Python::attach(|py| {
        py.check_signals()?;
        let mut commits = commits.bind(py).clone();
        commits.next().map(|commit| commit.and_then(|commit| commit.extract())).transpose()
    })
}

fn stats_leaves(leaves: Vec<Leaf>) -> Result<Vec<StatsLeaf>> {
    let leaf = |(path, primitive): Leaf| {
        let primitive = primitive.as_deref().map(PrimitiveType::from_name).transpose()?;
        Ok(StatsLeaf { path, primitive })
    };
    leaves.into_iter().map(leaf).collect()
}
