//! Keys of one column of integers, which are compared as they are.

use arrow_array::{
    Array, ArrayRef, Date32Array, Int32Array, Int64Array, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use crate::error::{Error, ErrorKind, Result};

/// The distinct keys of a column, each with its first row.
pub struct IntegerKeys {
    kind: DataType,
    places: HashTable<(i64, usize)>,
    /// The first row whose key is null, if a null equals a null.
    null: Option<usize>,
    state: RandomState,
}

impl IntegerKeys {
    /// Indexes a column; returns nothing if it is not of integers.
    pub fn new(column: &ArrayRef, equal_nulls: bool) -> Option<Self> {
        let values = integers(column)?;
        let state = RandomState::default();
        let mut places = HashTable::with_capacity(values.len());
        let mut null = None;
        for (place, key) in values.iter().enumerate() {
            if column.is_valid(place) {
                places
                    .entry(state.hash_one(key), |(other, _)| other == key, |(other, _)| state.hash_one(other))
                    .or_insert((*key, place));
            } else if equal_nulls {
                null = null.or(Some(place));
            }
        }
        Some(Self { kind: column.data_type().clone(), places, null, state })
    }

    pub fn len(&self) -> usize {
        self.places.len().saturating_add(usize::from(self.null.is_some()))
    }

    /// Looks up the keys of rows, and passes on the place of each.
    ///
    /// # Errors
    /// `InvalidArgument` if the rows are of another type.
    pub fn look_up(&self, rows: &ArrayRef, mut found: impl FnMut(Option<usize>)) -> Result<()> {
        let values = integers(rows).filter(|_| *rows.data_type() == self.kind).ok_or_else(|| {
            let message = format!("keys of the type {} cannot equal rows of the type {}", self.kind, rows.data_type());
            Error::new(ErrorKind::InvalidArgument, message)
        })?;
        let find = |key: &i64| {
            let known = self.places.find(self.state.hash_one(key), |(other, _)| other == key);
            known.map(|(_, place)| *place)
        };
        match rows.nulls() {
            None => values.iter().for_each(|key| found(find(key))),
            Some(valid) => {
                values.iter().zip(valid).for_each(|(key, valid)| found(if valid { find(key) } else { self.null }));
            }
        }
        Ok(())
    }
}

fn integers(column: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    let array = column.as_any();
    let wide = array
        .downcast_ref::<Int64Array>()
        .map(|array| array.values().clone())
        .or_else(|| array.downcast_ref::<TimestampMicrosecondArray>().map(|array| array.values().clone()))
        .or_else(|| array.downcast_ref::<TimestampNanosecondArray>().map(|array| array.values().clone()))
        .or_else(|| array.downcast_ref::<TimestampMillisecondArray>().map(|array| array.values().clone()))
        .or_else(|| array.downcast_ref::<TimestampSecondArray>().map(|array| array.values().clone()));
    wide.or_else(|| {
        let narrow = array
            .downcast_ref::<Int32Array>()
            .map(Int32Array::values)
            .or_else(|| array.downcast_ref::<Date32Array>().map(Date32Array::values))?;
        Some(narrow.iter().map(|value| i64::from(*value)).collect())
    })
}
