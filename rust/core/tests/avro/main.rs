//! The Avro kernels are judged by the crate `apache-avro`: from files that the crate writes, both must read the same, and
//! the crate must read what the kernel writes.
//!
//! Every case is made from a seed, which a failure prints. `DELTABERG_SEED` is the first seed of a run.

mod container;
mod draw;
mod plain;
mod wanted;
mod written;

use std::collections::BTreeSet;
use std::sync::Arc;

use apache_avro::types::Value;
use apache_avro::{Codec as Compression, DeflateSettings, Reader, Schema, Writer, ZstandardSettings};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::{DataType, Schema as ArrowSchema, SchemaRef};
use deltaberg_core::ErrorKind;
use deltaberg_core::avro::{Codec, Limits, Node, decode_avro, encode_avro};

use crate::draw::{Draw, Schemas};
use crate::plain::Plain;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const CASES: u64 = 400;

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("DELTABERG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0_u64);
    first..first.saturating_add(CASES)
}

/// A file that the crate wrote, and the wanted columns of it.
struct Case {
    text: String,
    file: Vec<u8>,
    rows: Vec<Value>,
    node: Node,
    columns: SchemaRef,
    threads: usize,
}

impl Case {
    fn new(seed: u64) -> Result<Self> {
        let mut draw = Draw::new(seed);
        let text = Schemas::new(&mut draw).record(0);
        let schema = Schema::parse_str(&text)?;
        let codec = match seed % 4 {
            0 => Compression::Null,
            1 => Compression::Deflate(DeflateSettings::default()),
            2 => Compression::Snappy,
            _ => Compression::Zstandard(ZstandardSettings::default()),
        };
        let parts = [None, Some(1), Some(40)].get(draw.below(3)).copied().flatten();
        let mut writer = Writer::builder()
            .schema(&schema)
            .writer(Vec::new())
            .codec(codec)
            .block_size(draw.below(2000).saturating_add(1))
            .maybe_map_array_target_block_size(parts)
            .build()?;
        for _ in 0..draw.below(60) {
            writer.append_value(draw.value(&schema)?)?;
        }
        let file = writer.into_inner()?;
        let reader = Reader::new(file.as_slice())?;
        let Schema::Record(record) = reader.writer_schema() else { return Err("rows are records".into()) };
        let fields = wanted::fields_of(record, &mut draw)?;
        let root = DataType::Struct(fields.clone());
        let node = wanted::node_of(reader.writer_schema(), Some(&root), None, &mut draw)?;
        let rows = reader.collect::<std::result::Result<_, _>>()?;
        let columns = Arc::new(ArrowSchema::new(fields));
        let threads = draw.below(3).saturating_add(1);
        Ok(Self { text, file, rows, node, columns, threads })
    }

    fn expected(&self) -> Result<Vec<Plain>> {
        let root = DataType::Struct(self.columns.fields().clone());
        self.rows.iter().map(|row| plain::of_value(row, &self.node, &root)).collect()
    }

    /// What the kernel decodes from the file, or from a damaged copy of it.
    fn batches(&self, file: &[u8]) -> Result<std::result::Result<Vec<RecordBatch>, deltaberg_core::Error>> {
        // The places of blocks are those of the undamaged file.
        let container = container::parse(&self.file)?;
        let codec = Codec::from_name(&container.codec)?;
        Ok(decode_avro(
            file,
            &container.blocks,
            codec,
            &self.node,
            &self.columns,
            Limits { threads: self.threads, memory: usize::MAX },
        ))
    }

    fn decoded(&self, file: &[u8]) -> Result<std::result::Result<Vec<Plain>, deltaberg_core::Error>> {
        Ok(match self.batches(file)? {
            Ok(batches) => Ok(rows_of(batches)?),
            Err(error) => Err(error),
        })
    }
}

fn rows_of(batches: Vec<RecordBatch>) -> Result<Vec<Plain>> {
    let mut rows = Vec::new();
    for batch in batches {
        batch.columns().iter().try_for_each(|column| column.to_data().validate_full())?;
        let batch = StructArray::from(batch);
        for row in 0..batch.len() {
            rows.push(plain::of_array(&batch, row)?);
        }
    }
    Ok(rows)
}

#[test]
fn files_of_the_crate_are_decoded() -> Result<()> {
    let (mut rows, mut kinds) = (0, BTreeSet::new());
    for seed in seeds() {
        let named = |error: Box<dyn std::error::Error>| format!("seed {seed}: {error}");
        let case = Case::new(seed).map_err(named)?;
        let found = case.decoded(&case.file).map_err(named)?;
        let found = found.map_err(|error| format!("seed {seed}: {error}\n{}\n{:?}", case.text, case.node))?;
        assert_eq!(found, case.expected().map_err(named)?, "seed {seed}\n{}\n{:?}", case.text, case.columns);
        rows += found.len();
        note_kinds(&case.node, &mut kinds);
    }
    assert!(rows > 5000, "the cases were meant to have many rows, not {rows}");
    let all = ["array", "boolean", "bytes", "double", "fixed", "float", "int", "long", "map", "null", "pairs"];
    let all = all.into_iter().chain(["record", "selected keys", "string", "union"]);
    assert!(kinds.iter().eq(all), "the cases were meant to have every kind, not only {kinds:?}");
    Ok(())
}

/// Notes the kinds of nodes whose values are read, and whether keys are selected.
fn note_kinds(node: &Node, kinds: &mut BTreeSet<String>) {
    kinds.insert(node.kind.clone());
    if node.keys.is_some() {
        kinds.insert("selected keys".to_owned());
    }
    let skips_fields = node.kind == "record";
    for child in node.children.iter().filter(|child| !skips_fields || child.slot.is_some()) {
        note_kinds(child, kinds);
    }
}

#[test]
fn a_damaged_file_is_refused_or_decoded() -> Result<()> {
    for seed in seeds() {
        let case = Case::new(seed)?;
        let mut draw = Draw::new(seed);
        let mut file = case.file.clone();
        for _ in 0..=draw.below(3) {
            let place = draw.below(file.len());
            if let Some(byte) = file.get_mut(place) {
                *byte ^= 1 << draw.below(8);
            }
        }
        if draw.one_in(4) {
            file.truncate(draw.below(file.len()));
        }
        if let Err(error) = case.decoded(&file).map_err(|error| format!("seed {seed}: {error}"))? {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::CorruptAvro | ErrorKind::TooLarge), "seed {seed}: {error}");
        }
    }
    Ok(())
}

#[test]
fn the_crate_reads_what_is_written() -> Result<()> {
    let (mut rows, mut refused) = (0, 0);
    for seed in seeds() {
        let named = |error: Box<dyn std::error::Error>| format!("seed {seed}: {error}");
        let case = Case::new(seed).map_err(named)?;
        // A slice begins within the buffers of its columns.
        let batches = case.batches(&case.file).map_err(named)?.map_err(|error| format!("seed {seed}: {error}"))?;
        let batches: Vec<_> = batches.iter().map(|batch| batch.slice(1, batch.num_rows().saturating_sub(1))).collect();
        let fields = case.columns.fields();
        let name = ["null", "deflate", "snappy", "zstandard"].get(Draw::new(seed).below(4)).copied().unwrap_or("null");
        let header = written::header_of(fields, name).map_err(named)?;
        let codec = Codec::from_name(name)?;
        let file = match encode_avro(&batches, &header, &written::SYNC, codec, None, case.threads) {
            Ok(file) => file,
            Err(error) => {
                // A list may have lost all that its items are made of.
                assert!(error.message().contains("take no bytes"), "seed {seed}: {error}");
                refused += 1;
                continue;
            }
        };
        let expected = rows_of(batches).map_err(named)?;
        assert_eq!(written::rows_of(&file, fields).map_err(named)?, expected, "seed {seed}\n{:?}", case.columns);
        rows += expected.len();
    }
    assert!(rows > 5000, "the cases were meant to have many rows, not {rows}");
    assert!(refused < 20, "few cases were meant to be refused, not {refused}");
    Ok(())
}
