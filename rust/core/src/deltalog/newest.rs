//! The actions of which only the newest counts: `txn` by application, `domainMetadata` by domain, `protocol` and
//! `metaData`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::action::{Domain, Transaction};
use super::line::Lines;
use crate::error::Result;

/// The newest of these actions in the commits seen so far.
#[derive(Default)]
pub(super) struct Newest {
    /// Version and `lastUpdated` by `appId`.
    pub transactions: HashMap<String, (i64, Option<i64>)>,
    /// Configuration and `removed` by domain.
    pub domains: HashMap<String, (String, bool)>,
    /// Commit version and text.
    pub protocol: Option<(i64, String)>,
    /// Commit version and text.
    pub metadata: Option<(i64, String)>,
}

impl Newest {
    /// Keeps what the pieces of a commit say, where no newer commit said it. Inside one commit the last line wins.
    pub(super) fn keep<'p, 'a: 'p>(&mut self, version: i64, pieces: impl DoubleEndedIterator<Item = &'p Lines<'a>>) {
        for lines in pieces.rev() {
            let data = lines.data;
            for Transaction { app_id, version, last_updated } in lines.transactions.iter().rev() {
                let app_id = app_id.text(data).unwrap_or_default().into_owned();
                self.transactions.entry(app_id).or_insert((*version, *last_updated));
            }
            for Domain { name, configuration, removed } in lines.domains.iter().rev() {
                let name = name.text(data).unwrap_or_default().into_owned();
                let configuration = || configuration.text(data).unwrap_or_default().into_owned();
                self.domains.entry(name).or_insert_with(|| (configuration(), *removed));
            }
            let newest = |kept: &mut Option<(i64, String)>, found: Option<&[u8]>| {
                if let (None, Some(found)) = (&kept, found) {
                    *kept = Some((version, String::from_utf8_lossy(found).into_owned()));
                }
            };
            newest(&mut self.protocol, lines.protocol);
            newest(&mut self.metadata, lines.metadata);
        }
    }
}

pub(super) fn transactions_batch(transactions: HashMap<String, (i64, Option<i64>)>) -> Result<RecordBatch> {
    let mut rows: Vec<_> = transactions.into_iter().collect();
    rows.sort_unstable();
    let schema = Schema::new(vec![
        Field::new("appId", DataType::Utf8, false),
        Field::new("version", DataType::Int64, false),
        Field::new("lastUpdated", DataType::Int64, true),
    ]);
    let app_ids: StringArray = rows.iter().map(|(app_id, _)| Some(app_id)).collect();
    let versions: Int64Array = rows.iter().map(|(_, (version, _))| Some(*version)).collect();
    let updated: Int64Array = rows.iter().map(|(_, (_, updated))| *updated).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(app_ids), Arc::new(versions), Arc::new(updated)])?)
}

pub(super) fn domains_batch(domains: HashMap<String, (String, bool)>) -> Result<RecordBatch> {
    let mut rows: Vec<_> = domains.into_iter().collect();
    rows.sort_unstable();
    let schema = Schema::new(vec![
        Field::new("domain", DataType::Utf8, false),
        Field::new("configuration", DataType::Utf8, false),
        Field::new("removed", DataType::Boolean, false),
    ]);
    let names: StringArray = rows.iter().map(|(domain, _)| Some(domain)).collect();
    let configurations: StringArray = rows.iter().map(|(_, (configuration, _))| Some(configuration)).collect();
    let mut removed = BooleanBuilder::new();
    for (_, (_, gone)) in &rows {
        removed.append_value(*gone);
    }
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(names), Arc::new(configurations), Arc::new(removed.finish())];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}
