//! The record count alone, which a replay reads together with the action that has the statistics.

use super::{columns, end};
use crate::json::{Cursor, JsonError, Kind, Text, Token};

/// Reads the record count from the statistics that begin here; none if it is unknown.
pub(crate) fn record_count<const QUOTED: bool>(cursor: &mut Cursor<'_, QUOTED>) -> Result<Option<i64>, JsonError> {
    let mut count = Token::Null;
    if cursor.kind()? == Kind::Object {
        cursor.object(|cursor, key| {
            if &*key.bytes() == b"numRecords" {
                count = cursor.scalar(1)?;
                return Ok(());
            }
            cursor.skip(1)
        })?;
    } else {
        cursor.skip(0)?;
    }
    end(cursor)?;
    Ok(columns::count(count))
}

/// Reads the record count from statistics whose escapes have to be resolved; none if they are not valid.
pub(crate) fn resolved_record_count(text: Text<'_>) -> Option<i64> {
    record_count(&mut Cursor::in_text(text.resolve()?.as_bytes())).ok().flatten()
}
