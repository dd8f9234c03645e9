//! The physical types that column chunks claim, which the `parquet` crate does not compare with the schema.

use parquet::schema::types::SchemaDescriptor;

use super::header::{BINARY, FALSE, I8, I16, I32, I64, LIST, STRUCT, TRUE, fields, number, varint};

/// Structures and lists lie at most so deep in each other.
const MOST_DEPTH: u32 = 12;

/// Tells whether all chunks are of the types of their columns, and the metadata is as writers leave it.
pub fn has_sound_types(footer: &[u8], schema: &SchemaDescriptor) -> bool {
    let found = fields(&mut &*footer, &mut |input, id, kind| match (id, kind) {
        (4, LIST) => items(input, &mut |input, _| row_group(input, schema)),
        _ => skip(input, kind, MOST_DEPTH),
    });
    found.is_some()
}

fn row_group(input: &mut &[u8], schema: &SchemaDescriptor) -> Option<()> {
    fields(input, &mut |input, id, kind| match (id, kind) {
        (1, LIST) => items(input, &mut |input, leaf| {
            let wanted = (leaf < schema.num_columns()).then(|| schema.column(leaf).physical_type() as u32)?;
            chunk(input, wanted)
        }),
        _ => skip(input, kind, MOST_DEPTH),
    })
}

fn chunk(input: &mut &[u8], wanted: u32) -> Option<()> {
    fields(input, &mut |input, id, kind| match (id, kind) {
        (3, STRUCT) => fields(input, &mut |input, id, kind| match (id, kind) {
            (1, I32) => (number(input)? == wanted).then_some(()),
            (1, _) => None,
            // Counts, sizes and places, which the crate also takes from shorter numbers.
            (5..=7 | 9..=11, _) if kind != I64 => None,
            _ => skip(input, kind, MOST_DEPTH),
        }),
        _ => skip(input, kind, MOST_DEPTH),
    })
}

/// Reads the structures of a list.
fn items(input: &mut &[u8], each: &mut dyn FnMut(&mut &[u8], usize) -> Option<()>) -> Option<()> {
    let (count, kind) = list(input)?;
    (0..count).try_for_each(|at| if kind == STRUCT { each(input, at) } else { None })
}

fn list(input: &mut &[u8]) -> Option<(usize, u8)> {
    let (head, rest) = input.split_first()?;
    *input = rest;
    let short = head >> 4;
    let count = if short == 15 { usize::try_from(varint(input)?).ok()? } else { short.into() };
    // Each item has a byte at least.
    (count <= input.len()).then_some((count, head & 15))
}

fn skip(input: &mut &[u8], kind: u8, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind {
        TRUE | FALSE => Some(()),
        I8 => input.split_off_first().map(drop),
        I16 | I32 | I64 => varint(input).map(drop),
        BINARY => {
            let length = usize::try_from(varint(input)?).ok()?;
            *input = input.get(length..)?;
            Some(())
        }
        LIST => {
            let (count, kind) = list(input)?;
            (0..count).try_for_each(|_| match kind {
                // Truth values take a byte each in a list.
                TRUE | FALSE => input.split_off_first().map(drop),
                _ => skip(input, kind, depth),
            })
        }
        STRUCT => fields(input, &mut |input, _, kind| skip(input, kind, depth)),
        _ => None,
    }
}
