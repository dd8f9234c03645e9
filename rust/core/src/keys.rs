//! Keys that rows are looked up by: those of equality deletes (Iceberg spec, "Equality Delete Files"), and those of joins.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Int64Array, LargeListArray, ListArray, PrimitiveArray,
    RecordBatch, StructArray,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

mod integers;

use integers::IntegerKeys;

/// How many rows are encoded at a time.
const CHUNK: usize = 8192;

/// The distinct keys of some rows, made once and looked up for many batches.
pub enum KeyIndex {
    /// Keys of one column of integers.
    Integers(IntegerKeys),
    /// Keys of any columns.
    Rows(RowKeys),
}

/// Keys in the row format of Arrow.
pub struct RowKeys {
    converter: RowConverter,
    keys: Rows,
    /// The first row of each key.
    places: HashTable<usize>,
    state: RandomState,
    /// For each column whether a null equals a null, where values are compared as in SQL.
    null_safe: Option<Vec<bool>>,
}

impl KeyIndex {
    /// Indexes the rows of a batch as keys.
    ///
    /// Without `null_safe`, values are compared as they are stored, and a null equals a null. With it, they are compared
    /// as in Spark SQL: NaN equals NaN, and 0.0 equals -0.0, at every depth. A null then equals a null only in the
    /// columns for which `null_safe` is true; a row with a null in any other column has no key. Inside of lists and
    /// structs, a null equals a null.
    ///
    /// # Errors
    /// `InvalidArgument` if the batch has no columns, or a column of a type that cannot be compared, or if `null_safe`
    /// has another number of columns.
    pub fn new(batch: &RecordBatch, null_safe: Option<Vec<bool>>) -> Result<Self> {
        if batch.num_columns() == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "a key needs at least one column"));
        }
        if null_safe.as_ref().is_some_and(|flags| flags.len() != batch.num_columns()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "null_safe needs one value for each column of the keys",
            ));
        }
        if batch.columns().iter().any(|column| has_map(column.data_type())) {
            return Err(Error::new(ErrorKind::InvalidArgument, "a map cannot be part of a key"));
        }
        if let [column] = batch.columns() {
            let equal_nulls = null_safe.as_ref().is_none_or(|flags| flags.contains(&true));
            if let Some(keys) = IntegerKeys::new(column, equal_nulls) {
                return Ok(Self::Integers(keys));
            }
        }
        RowKeys::new(batch, null_safe).map(Self::Rows)
    }

    /// How many distinct keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(keys) => keys.len(),
            Self::Rows(keys) => keys.places.len(),
        }
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a mask of the rows that equal a key in all columns.
    ///
    /// # Errors
    /// `InvalidArgument` if the rows and the keys have columns of different types.
    pub fn contains(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut found = BooleanBufferBuilder::new(batch.num_rows());
        for first in (0..batch.num_rows()).step_by(CHUNK) {
            self.look_up(batch, first, |place| found.append(place.is_some()))?;
        }
        Ok(BooleanArray::new(found.finish(), None))
    }

    /// Returns, for each row, the number of the first row of the keys that it equals in all columns; null if there is
    /// none.
    ///
    /// # Errors
    /// `InvalidArgument` if the rows and the keys have columns of different types.
    pub fn find(&self, batch: &RecordBatch, threads: usize) -> Result<Int64Array> {
        let starts: Vec<usize> = (0..batch.num_rows()).step_by(CHUNK).collect();
        let pieces = parallel::map(&starts, threads, |first| {
            let (mut places, mut known) = (Vec::with_capacity(CHUNK), BooleanBufferBuilder::new(CHUNK));
            self.look_up(batch, *first, |place| {
                let place = place.and_then(|place| i64::try_from(place).ok());
                places.push(place.unwrap_or(0));
                known.append(place.is_some());
            })?;
            Ok::<_, Error>((places, known))
        });
        let mut found = Vec::with_capacity(batch.num_rows());
        let mut valid = BooleanBufferBuilder::new(batch.num_rows());
        for piece in pieces {
            let (places, known) = piece?;
            found.extend_from_slice(&places);
            valid.append_packed_range(0..known.len(), known.as_slice());
        }
        Ok(Int64Array::new(found.into(), Some(NullBuffer::new(valid.finish()))))
    }

    /// Looks up at most `CHUNK` rows from `first` on, and passes on the place of each row's key.
    fn look_up(&self, batch: &RecordBatch, first: usize, found: impl FnMut(Option<usize>)) -> Result<()> {
        let count = CHUNK.min(batch.num_rows().saturating_sub(first));
        let columns: Vec<ArrayRef> = batch.columns().iter().map(|column| column.slice(first, count)).collect();
        match (self, columns.as_slice()) {
            (Self::Integers(keys), [column]) => keys.look_up(column, found),
            (Self::Integers(_), _) => Err(Error::new(ErrorKind::InvalidArgument, "the keys have one column")),
            (Self::Rows(keys), _) => keys.look_up(&columns, count, found),
        }
    }
}

impl RowKeys {
    fn new(batch: &RecordBatch, null_safe: Option<Vec<bool>>) -> Result<Self> {
        let fields = batch.columns().iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| refuse(&error))?;
        let columns = prepared(batch.columns(), null_safe.as_deref());
        let keys = converter.convert_columns(&columns).map_err(|error| refuse(&error))?;
        let missing = missing(batch.columns(), null_safe.as_deref());
        let state = RandomState::default();
        let mut places = HashTable::with_capacity(batch.num_rows());
        for place in (0..keys.num_rows()).filter(|place| has_key(missing.as_ref(), *place)) {
            let key = keys.row(place);
            let hash = state.hash_one(key.as_ref());
            let same = |other: &usize| keys.row(*other) == key;
            places.entry(hash, same, |other| state.hash_one(keys.row(*other).as_ref())).or_insert(place);
        }
        Ok(Self { converter, keys, places, state, null_safe })
    }

    fn look_up(&self, columns: &[ArrayRef], count: usize, mut found: impl FnMut(Option<usize>)) -> Result<()> {
        let missing = missing(columns, self.null_safe.as_deref());
        let mut rows = self.converter.empty_rows(count, 0);
        let columns = prepared(columns, self.null_safe.as_deref());
        self.converter.append(&mut rows, &columns).map_err(|error| refuse(&error))?;
        for place in 0..rows.num_rows() {
            let row = rows.row(place);
            let hash = self.state.hash_one(row.as_ref());
            let known = has_key(missing.as_ref(), place)
                .then(|| self.places.find(hash, |key| self.keys.row(*key) == row).copied());
            found(known.flatten());
        }
        Ok(())
    }
}

/// Returns which rows have a value in every column in which a null equals nothing.
fn missing(columns: &[ArrayRef], null_safe: Option<&[bool]>) -> Option<NullBuffer> {
    let strict = columns.iter().zip(null_safe?).filter(|(_, safe)| !**safe);
    strict.fold(None, |nulls, (column, _)| NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref()))
}

fn has_key(missing: Option<&NullBuffer>, place: usize) -> bool {
    missing.is_none_or(|nulls| nulls.is_valid(place))
}

/// Returns columns whose values are equal in SQL exactly if they are stored in the same way.
fn prepared(columns: &[ArrayRef], null_safe: Option<&[bool]>) -> Vec<ArrayRef> {
    match null_safe {
        Some(_) => columns.iter().map(canonical).collect(),
        None => columns.to_vec(),
    }
}

fn canonical(array: &ArrayRef) -> ArrayRef {
    let found = match array.data_type() {
        DataType::Float32 => floats::<Float32Type>(array, |value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        DataType::Float64 => floats::<Float64Type>(array, |value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        DataType::Struct(_) => array.as_any().downcast_ref::<StructArray>().and_then(|array| {
            let columns = array.columns().iter().map(canonical).collect();
            Some(Arc::new(StructArray::try_new(array.fields().clone(), columns, array.nulls().cloned()).ok()?) as _)
        }),
        DataType::List(field) => array.as_any().downcast_ref::<ListArray>().and_then(|array| {
            let values = canonical(array.values());
            let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
            Some(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls).ok()?) as _)
        }),
        DataType::LargeList(field) => array.as_any().downcast_ref::<LargeListArray>().and_then(|array| {
            let values = canonical(array.values());
            let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
            Some(Arc::new(LargeListArray::try_new(Arc::clone(field), offsets, values, nulls).ok()?) as _)
        }),
        DataType::FixedSizeList(field, size) => array.as_any().downcast_ref::<FixedSizeListArray>().and_then(|array| {
            let values = canonical(array.values());
            let nulls = array.nulls().cloned();
            Some(Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, values, nulls).ok()?) as _)
        }),
        _ => None,
    };
    found.unwrap_or_else(|| Arc::clone(array))
}

fn floats<T: ArrowPrimitiveType>(array: &ArrayRef, change: impl Fn(T::Native) -> T::Native) -> Option<ArrayRef> {
    let array: &PrimitiveArray<T> = array.as_any().downcast_ref()?;
    Some(Arc::new(array.unary::<_, T>(change)))
}

fn has_map(kind: &DataType) -> bool {
    match kind {
        DataType::Map(_, _) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            has_map(field.data_type())
        }
        _ => false,
    }
}

fn refuse(error: &arrow_schema::ArrowError) -> Error {
    Error::new(ErrorKind::InvalidArgument, error.to_string())
}
