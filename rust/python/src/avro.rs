//! Avro files.

use deltaberg_core::avro::{self, Block, Codec, Node};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arrow::{self, InBatch, InSchema};
use crate::enter::{enter, threads as thread_count};

/// A node, from a tuple of kind, size, slot, children and keys.
pub struct InNode(Node);

impl<'a, 'py> FromPyObject<'a, 'py> for InNode {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let (kind, size, slot, children, keys) =
            object.extract::<(String, usize, Option<usize>, Vec<Self>, Option<Vec<i64>>)>()?;
        Ok(Self(Node { kind, size, slot, children: children.into_iter().map(|child| child.0).collect(), keys }))
    }
}

/// Decodes blocks of an Avro file.
#[pyfunction]
#[pyo3(signature = (data, blocks, codec, node, schema, threads=0))]
pub fn decode_avro<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    blocks: Vec<(usize, usize, usize)>,
    codec: &str,
    node: InNode,
    schema: &Bound<'py, PyAny>,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let InSchema(wanted) = schema.extract()?;
    let batches = enter(py, || {
        let blocks: Vec<Block> = blocks.into_iter().map(|(offset, size, rows)| Block { offset, size, rows }).collect();
        avro::decode_avro(&data, &blocks, Codec::from_name(codec)?, &node.0, &wanted, thread_count(threads))
    })?;
    arrow::table_of_schema(py, batches, schema)
}

/// Encodes batches as an Avro file that begins with `header`.
#[pyfunction]
#[pyo3(signature = (batches, header, sync, codec, level=None, threads=0))]
pub fn encode_avro<'py>(
    py: Python<'py>,
    batches: Vec<InBatch>,
    header: &[u8],
    sync: &[u8],
    codec: &str,
    level: Option<i32>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let data = enter(py, || {
        let batches: Vec<_> = batches.into_iter().map(|batch| batch.0).collect();
        avro::encode_avro(&batches, header, sync, Codec::from_name(codec)?, level, thread_count(threads))
    })?;
    Ok(PyBytes::new(py, &data))
}
