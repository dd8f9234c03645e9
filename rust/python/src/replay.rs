//! Log replay.

use deltaberg_core::deltalog::{self, Role};
use deltaberg_core::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyIterator;

use crate::arrow::{self, InBatch};
use crate::enter::{Failure, enter, threads as thread_count};

/// Replays commits, newest first.
#[pyfunction]
#[pyo3(signature = (commits, threads=0))]
pub fn replay<'py>(py: Python<'py>, commits: &Bound<'py, PyAny>, threads: usize) -> PyResult<Bound<'py, PyAny>> {
    let commits: Py<PyIterator> = commits.try_iter()?.unbind();
    let replay = enter(py, || {
        let next = || next_commit(&commits).map_err(Failure::Python);
        deltalog::replay(next, thread_count(threads))
    })?;
    let class = py.import("deltaberg.kernels.results")?.getattr("Replay")?;
    class.call1((
        arrow::table_to_python(py, replay.adds)?,
        arrow::table_to_python(py, replay.removes)?,
        arrow::batch_to_python(py, replay.transactions)?,
        arrow::batch_to_python(py, replay.domains)?,
        replay.protocol,
        replay.metadata,
    ))
}

fn next_commit(commits: &Py<PyIterator>) -> PyResult<Option<(i64, PyBackedBytes)>> {
    Python::attach(|py| {
        py.check_signals()?;
        let mut commits = commits.bind(py).clone();
        commits.next().map(|commit| commit.and_then(|commit| commit.extract())).transpose()
    })
}

/// Returns masks of the rows of an older state that no newer action replaces or removes.
#[pyfunction]
#[pyo3(signature = (adds, removes, older, role, threads=0))]
pub fn reconcile<'py>(
    py: Python<'py>,
    adds: Vec<InBatch>,
    removes: Vec<InBatch>,
    older: Vec<InBatch>,
    role: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let batches = |batches: Vec<InBatch>| batches.into_iter().map(|batch| batch.0).collect::<Vec<_>>();
    let (adds, removes, older) = (batches(adds), batches(removes), batches(older));
    let masks = enter(py, || {
        let role = match role {
            "add" => Role::Add,
            "remove" => Role::Remove,
            _ => return Err(Error::new(ErrorKind::InvalidArgument, "role must be \"add\" or \"remove\"")),
        };
        deltalog::reconcile(&adds, &removes, &older, role, thread_count(threads))
    })?;
    arrow::masks_to_python(py, &masks)
}
