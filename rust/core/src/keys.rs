//! Sets of keys that rows are looked up in, where a null equals a null (Iceberg spec, "Equality Delete Files").

use std::hash::BuildHasher;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_row::{RowConverter, Rows, SortField};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::error::{Error, ErrorKind, Result};

/// How many rows are encoded at a time.
const CHUNK: usize = 8192;

/// The distinct keys of some rows, made once and looked up for many batches.
pub struct KeyIndex {
    converter: RowConverter,
    keys: Rows,
    places: HashTable<usize>,
    state: RandomState,
}

impl KeyIndex {
    /// Indexes the rows of a batch as keys.
    ///
    /// # Errors
    /// `InvalidArgument` if the batch has no columns, or a column of a type that cannot be compared.
    pub fn new(batch: &RecordBatch) -> Result<Self> {
        if batch.num_columns() == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "a key needs at least one column"));
        }
        let fields = batch.columns().iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| refuse(&error))?;
        let keys = converter.convert_columns(batch.columns()).map_err(|error| refuse(&error))?;
        let state = RandomState::default();
        let mut places = HashTable::with_capacity(batch.num_rows());
        for place in 0..keys.num_rows() {
            let key = keys.row(place);
            let hash = state.hash_one(key.as_ref());
            let same = |other: &usize| keys.row(*other) == key;
            places.entry(hash, same, |other| state.hash_one(keys.row(*other).as_ref())).or_insert(place);
        }
        Ok(Self { converter, keys, places, state })
    }

    /// How many distinct keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns a mask of the rows that equal a key in all columns.
    ///
    /// # Errors
    /// `InvalidArgument` if the rows and the keys have columns of different types.
    pub fn contains(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut found = BooleanBufferBuilder::new(batch.num_rows());
        let mut rows = self.converter.empty_rows(0, 0);
        for first in (0..batch.num_rows()).step_by(CHUNK) {
            let count = CHUNK.min(batch.num_rows().saturating_sub(first));
            let columns: Vec<ArrayRef> = batch.columns().iter().map(|column| column.slice(first, count)).collect();
            rows.clear();
            self.converter.append(&mut rows, &columns).map_err(|error| refuse(&error))?;
            for place in 0..rows.num_rows() {
                let row = rows.row(place);
                let hash = self.state.hash_one(row.as_ref());
                found.append(self.places.find(hash, |key| self.keys.row(*key) == row).is_some());
            }
        }
        Ok(BooleanArray::new(found.finish(), None))
    }
}

fn refuse(error: &arrow_schema::ArrowError) -> Error {
    Error::new(ErrorKind::InvalidArgument, error.to_string())
}
