//! The steps by which a block is read, compiled from the writer's schema and the wanted columns.

use arrow_schema::DataType;

use crate::error::{Error, ErrorKind, Result, quoted};

use super::cursor::{Cursor, Flaw, Read, corrupt, flaw};

/// The most levels of nesting.
const DEEPEST: usize = 100;

/// A type of the writer's schema, and where its values go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `null`, `boolean`, `int` (32 bits), `long`, `float`, `double`, `bytes`, `string`, `fixed`, `record`, `array`,
    /// `map` or `union`; `pairs` is an array of records of a key and a value that stands for a map.
    pub kind: String,
    /// The number of bytes of a `fixed`.
    pub size: usize,
    /// Which of the wanted children of the parent takes the values; none skips them.
    pub slot: Option<usize>,
    /// The parts in the writer's order: the fields, the element, the value of a `map`, or the branches.
    pub children: Vec<Node>,
    /// The wanted keys of a `pairs` with integer keys; none means all.
    pub keys: Option<Vec<i64>>,
}

/// How values that are not wanted are skipped.
#[derive(Debug)]
pub enum Skip {
    Nothing,
    Varint,
    Bytes,
    Fixed(usize),
    Boolean,
    Record(Vec<Skip>),
    Union(Vec<Skip>),
    /// A union of null and one other type, with the numbers of both branches.
    Optional {
        null: i64,
        value: i64,
        inner: Box<Skip>,
    },
    /// Several integers, one after the other.
    Varints(usize),
    /// An integer, and bytes after it.
    Pair,
    /// An array, and how many bytes an item takes at least.
    Items(Box<Skip>, usize),
}

/// How wanted values are read; each step has its column.
#[derive(Debug)]
pub enum Plan {
    Null,
    Boolean,
    Int32,
    Int64,
    Float32,
    Float32As64,
    Float64,
    Bytes,
    Text,
    Fixed(usize),
    DecimalBytes,
    DecimalFixed(usize),
    Record(Vec<Step>),
    List(Box<Plan>, Item),
    /// A map whose entries are kept if their key is among `keys`.
    Pairs {
        fields: Vec<Step>,
        keys: Option<Vec<i64>>,
        item: Item,
    },
    Map(Box<Plan>, Item),
    /// A union of null and one other type, with the numbers of both branches.
    Optional {
        null: i64,
        value: i64,
        plan: Box<Plan>,
    },
}

/// What an item of a list takes: the fewest bytes in the file, and the memory without that of texts and further lists.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub least: usize,
    pub weight: usize,
}

/// A field of a record.
#[derive(Debug)]
pub enum Step {
    Skip(Skip),
    Read(usize, Plan),
}

/// Compiles a node whose values go to a column of this type.
pub fn compile(node: &Node, target: &DataType, depth: usize) -> Result<Plan> {
    if depth > DEEPEST {
        return Err(corrupt("the schema is nested too deeply"));
    }
    let inner = depth.saturating_add(1);
    Ok(match (node.kind.as_str(), target) {
        ("null", _) => Plan::Null,
        ("union", _) => return optional(node, target, inner),
        ("boolean", DataType::Boolean) => Plan::Boolean,
        ("int" | "long", DataType::Int32 | DataType::Date32 | DataType::Time32(_)) => Plan::Int32,
        ("int" | "long", DataType::Int64 | DataType::Timestamp(..) | DataType::Time64(_)) => Plan::Int64,
        ("float", DataType::Float32) => Plan::Float32,
        ("float", DataType::Float64) => Plan::Float32As64,
        ("double", DataType::Float64) => Plan::Float64,
        ("bytes" | "string", DataType::Utf8) => Plan::Text,
        ("bytes" | "string", DataType::Binary) => Plan::Bytes,
        ("bytes", DataType::Decimal128(..)) => Plan::DecimalBytes,
        ("fixed", DataType::FixedSizeBinary(width)) if usize::try_from(*width).ok() == Some(node.size) => {
            Plan::Fixed(node.size)
        }
        ("fixed", DataType::Decimal128(..)) if (1..=16).contains(&node.size) => Plan::DecimalFixed(node.size),
        ("record", DataType::Struct(fields)) => {
            let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
            Plan::Record(steps(&node.children, &types, inner)?)
        }
        ("array", DataType::List(field)) => {
            let element = only_child(node)?;
            let item = Item { least: least_of_items(element, inner)?, weight: weight(field.data_type()) };
            Plan::List(Box::new(compile(element, field.data_type(), inner)?), item)
        }
        ("pairs", DataType::Map(entries, _)) => {
            let record = only_child(node)?;
            let DataType::Struct(fields) = entries.data_type() else { return Err(mismatch(node, target)) };
            let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
            let item = Item { least: least_of_items(record, inner)?, weight: weight(entries.data_type()) };
            let mut fields = steps(&record.children, &types, inner)?;
            fields.iter_mut().for_each(require_key);
            Plan::Pairs { fields, keys: node.keys.clone(), item }
        }
        ("map", DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(fields) => match fields.iter().as_slice() {
                [key, value] if *key.data_type() == DataType::Utf8 => {
                    let item = Item { least: 1, weight: weight(entries.data_type()) };
                    Plan::Map(Box::new(compile(only_child(node)?, value.data_type(), inner)?), item)
                }
                _ => return Err(mismatch(node, target)),
            },
            _ => return Err(mismatch(node, target)),
        },
        _ => return Err(mismatch(node, target)),
    })
}

fn optional(node: &Node, target: &DataType, depth: usize) -> Result<Plan> {
    let is_null = |branch: &&Node| branch.kind == "null";
    let plan = |branch: &Node| compile(branch, target, depth).map(Box::new);
    match node.children.as_slice() {
        [null, value] if is_null(&null) => Ok(Plan::Optional { null: 0, value: 1, plan: plan(value)? }),
        [value, null] if is_null(&null) => Ok(Plan::Optional { null: 1, value: 0, plan: plan(value)? }),
        [value] => Ok(Plan::Optional { null: i64::MIN, value: 0, plan: plan(value)? }),
        _ => Err(Error::new(ErrorKind::InvalidArgument, "only a union of null and one other type can be read")),
    }
}

/// A key is never null, even if its type allows it.
fn require_key(step: &mut Step) {
    if let Step::Read(0, Plan::Optional { null, .. }) = step {
        *null = i64::MIN;
    }
}

fn steps(children: &[Node], types: &[&DataType], depth: usize) -> Result<Vec<Step>> {
    let step = |child: &Node| match child.slot {
        None => Ok(Step::Skip(skip(child, depth)?)),
        Some(slot) => {
            let target = types
                .get(slot)
                .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, format!("slot {slot} is not a wanted column")))?;
            Ok(Step::Read(slot, compile(child, target, depth)?))
        }
    };
    children.iter().map(step).collect()
}

/// Compiles a node whose values are not wanted.
pub fn skip(node: &Node, depth: usize) -> Result<Skip> {
    if depth > DEEPEST {
        return Err(corrupt("the schema is nested too deeply"));
    }
    let inner = depth.saturating_add(1);
    let all = |children: &[Node]| children.iter().map(|child| skip(child, inner)).collect::<Result<Vec<_>>>();
    Ok(match node.kind.as_str() {
        "null" => Skip::Nothing,
        "boolean" => Skip::Boolean,
        "int" | "long" => Skip::Varint,
        "float" => Skip::Fixed(4),
        "double" => Skip::Fixed(8),
        "bytes" | "string" => Skip::Bytes,
        "fixed" => Skip::Fixed(node.size),
        "record" => record_of(all(&node.children)?),
        "union" => union_of(all(&node.children)?),
        "array" | "pairs" => {
            let element = only_child(node)?;
            Skip::Items(Box::new(skip(element, inner)?), least_of_items(element, inner)?)
        }
        "map" => {
            let value = skip(only_child(node)?, inner)?;
            Skip::Items(Box::new(Skip::Record(vec![Skip::Bytes, value])), 1)
        }
        _ => return Err(Error::new(ErrorKind::InvalidArgument, format!("unknown Avro type {}", quoted(&node.kind)))),
    })
}

/// Joins the parts of the records of which the maps in manifests consist: integers, or an integer and bytes.
fn record_of(parts: Vec<Skip>) -> Skip {
    match parts.as_slice() {
        [Skip::Varint, Skip::Bytes] => Skip::Pair,
        all if all.iter().all(|part| matches!(part, Skip::Varint)) => Skip::Varints(all.len()),
        _ => Skip::Record(parts),
    }
}

/// Most unions are of null and one other type.
fn union_of(mut branches: Vec<Skip>) -> Skip {
    let (null, value) = match branches.as_slice() {
        [Skip::Nothing, _] => (0, 1),
        [_, Skip::Nothing] => (1, 0),
        _ => return Skip::Union(branches),
    };
    let inner = Box::new(branches.swap_remove(usize::from(null == 0)));
    Skip::Optional { null, value, inner }
}

/// Returns the memory that a value of a type takes, also as a null, without the bytes of texts and the items of lists.
pub fn weight(data_type: &DataType) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::Int64 | DataType::Float64 | DataType::Timestamp(..) | DataType::Time64(_) => 8,
        DataType::Decimal128(..) => 16,
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0),
        DataType::Struct(fields) => {
            fields.iter().fold(0, |sum: usize, field| sum.saturating_add(weight(field.data_type())))
        }
        _ => 4,
    }
}

/// Returns how many bytes a value takes at least.
pub fn least_bytes(node: &Node, depth: usize) -> usize {
    let inner = depth.saturating_add(1);
    match node.kind.as_str() {
        "null" => 0,
        "float" => 4,
        "double" => 8,
        "fixed" => node.size,
        "record" if depth <= DEEPEST => {
            node.children.iter().fold(0, |sum: usize, child| sum.saturating_add(least_bytes(child, inner)))
        }
        _ => 1,
    }
}

/// Refuses items that take no bytes, since a file could claim any number of them.
fn least_of_items(element: &Node, depth: usize) -> Result<usize> {
    match least_bytes(element, depth) {
        0 => Err(corrupt("the items of an array take no bytes")),
        least => Ok(least),
    }
}

fn only_child(node: &Node) -> Result<&Node> {
    match node.children.as_slice() {
        [child] => Ok(child),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("a node of kind {} must have one child", quoted(&node.kind)),
        )),
    }
}

fn mismatch(node: &Node, target: &DataType) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("an Avro {} cannot be read as {target}", node.kind))
}

impl Skip {
    /// Skips a value.
    #[inline]
    pub fn run(&self, cursor: &mut Cursor<'_>) -> Read<()> {
        // Most fields that are skipped are null.
        let Self::Optional { null, value, inner } = self else { return self.run_any(cursor) };
        let branch = cursor.long()?;
        if branch == *null {
            return Ok(());
        }
        if branch != *value {
            return Err(no_branch(branch));
        }
        inner.run_any(cursor)
    }

    fn run_any(&self, cursor: &mut Cursor<'_>) -> Read<()> {
        match self {
            Self::Optional { .. } => self.run(cursor),
            Self::Nothing => Ok(()),
            Self::Varint => cursor.skip_long(),
            Self::Varints(count) => cursor.skip_longs(*count),
            Self::Pair => cursor.skip_pairs(1),
            Self::Bytes => cursor.bytes().map(|_| ()),
            Self::Fixed(size) => cursor.take(*size).map(|_| ()),
            Self::Boolean => cursor.boolean().map(|_| ()),
            Self::Record(parts) => parts.iter().try_for_each(|part| part.run(cursor)),
            Self::Union(branches) => {
                let branch = cursor.long()?;
                let chosen = usize::try_from(branch).ok().and_then(|branch| branches.get(branch));
                chosen.ok_or_else(|| no_branch(branch))?.run(cursor)
            }
            Self::Items(item, least) => {
                while let Some((count, bytes)) = cursor.items(*least)? {
                    match (bytes, item.as_ref()) {
                        (Some(bytes), _) => cursor.take(bytes).map(|_| ())?,
                        (None, Self::Varints(each)) => cursor.skip_longs(count.saturating_mul(*each))?,
                        (None, Self::Pair) => cursor.skip_pairs(count)?,
                        (None, item) => (0..count).try_for_each(|_| item.run(cursor))?,
                    }
                }
                Ok(())
            }
        }
    }
}

#[cold]
pub fn no_branch(branch: i64) -> Flaw {
    flaw(format!("a union has no branch {branch}"))
}
