//! Avro files.

use arrow_array::{BooleanArray, Int64Array, RecordBatch};
use deltaberg_core::avro::{self, Block, Codec, First, Limits, Node};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arrow::{self, InArray, InBatch, InSchema};
use crate::enter::{Failure, enter, threads as thread_count};

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
#[pyo3(signature = (data, blocks, codec, node, schema, limits=None))]
pub fn decode_avro<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    blocks: Vec<(usize, usize, usize)>,
    codec: &str,
    node: InNode,
    schema: &Bound<'py, PyAny>,
    limits: Option<(usize, Option<usize>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let InSchema(wanted) = schema.extract()?;
    let batches = enter(py, || {
        let blocks = blocks_of(blocks);
        avro::decode_avro(&data, &blocks, Codec::from_name(codec)?, &node.0, &wanted, limits_of(limits))
    })?;
    arrow::table_of_schema(py, batches, schema)
}

fn limits_of(given: Option<(usize, Option<usize>)>) -> Limits {
    let (threads, memory) = given.unwrap_or((0, None));
    Limits { threads: thread_count(threads), memory: memory.unwrap_or(usize::MAX) }
}

fn blocks_of(blocks: Vec<(usize, usize, usize)>) -> Vec<Block> {
    blocks.into_iter().map(|(offset, size, rows)| Block { offset, size, rows }).collect()
}

/// Decodes the rows of blocks that some of their values choose.
#[pyfunction]
#[pyo3(signature = (data, blocks, codec, way, first, limits=None))]
pub fn decode_chosen<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    blocks: Vec<(usize, usize, usize)>,
    codec: &str,
    way: (InNode, Bound<'py, PyAny>),
    first: (InNode, Bound<'py, PyAny>, Py<PyAny>),
    limits: Option<(usize, Option<usize>)>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let (InSchema(wanted), InSchema(chosen_by)) = (way.1.extract()?, first.1.extract()?);
    let (node, first_node, choose) = (way.0, first.0, first.2);
    let found = enter(py, || {
        let first = First { node: &first_node.0, schema: &chosen_by };
        let ask = |rows| ask(&choose, rows).map_err(Failure::Python);
        let codec = Codec::from_name(codec)?;
        avro::decode_chosen(&data, &blocks_of(blocks), codec, (&node.0, &wanted), first, limits_of(limits), ask)
    })?;
    let rows = arrow::array_to_python(py, &Int64Array::from(found.rows))?;
    Ok((arrow::table_of_schema(py, found.batches, &way.1)?, rows))
}

fn ask(choose: &Py<PyAny>, rows: RecordBatch) -> PyResult<BooleanArray> {
    Python::attach(|py| {
        let mask: InArray = choose.call1(py, (arrow::batch_to_python(py, rows)?,))?.extract(py)?;
        arrow::downcast::<BooleanArray>(py, &mask.0, "a mask").cloned()
    })
}

/// Finds the blocks of an Avro file.
#[pyfunction]
#[pyo3(signature = (data, start, sync))]
pub fn find_blocks(
    py: Python<'_>,
    data: PyBackedBytes,
    start: usize,
    sync: PyBackedBytes,
) -> PyResult<Vec<(usize, usize, usize)>> {
    let blocks = enter(py, || avro::find_blocks(&data, start, &sync))?;
    Ok(blocks.into_iter().map(|block| (block.offset, block.size, block.rows)).collect())
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
