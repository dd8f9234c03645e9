//! Replay of commits, newest first, in three steps for each handful of commits: parse all pieces in
//! parallel, decide in order which actions are live (one hash probe each), and build the columns of
//! the live ones in parallel. Memory follows the live files and tombstones, not the history.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::{BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::action::{DeletionVector, Domain, FileAction, Transaction};
use super::canonical::canonical;
use super::columns::{self, Place};
use super::keys::{Key, KeyHasher, Keys, Seen};
use super::line::{self, LineError, Lines};
use super::paths::PathColumns;
use crate::error::{Error, ErrorKind, Result};
use crate::parallel;

/// Log entries are parsed in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;
/// Commits are taken together until each thread has about this much to parse.
const BATCH_BYTES_PER_THREAD: usize = 8 << 20;

/// The state that a run of commits leaves behind.
pub struct Replay {
    /// Live files; `stats` says where in the bytes of the commit `version` the text of theirs lies.
    pub adds: Vec<RecordBatch>,
    /// Tombstones.
    pub removes: Vec<RecordBatch>,
    /// `appId`, `version`, `lastUpdated`, ordered by `appId`.
    pub transactions: RecordBatch,
    /// `domain`, `configuration`, `removed`, ordered by `domain`.
    pub domains: RecordBatch,
    /// The text of the newest `protocol` object and its version.
    pub protocol: Option<(i64, String)>,
    /// The text of the newest `metaData` object and its version.
    pub metadata: Option<(i64, String)>,
}

/// Replays commits that `next` gives as (version, bytes), newest first.
///
/// # Errors
/// `CorruptLog` with version and line where an entry is not valid; whatever `next` fails with.
pub fn replay<B, E>(
    mut next: impl FnMut() -> std::result::Result<Option<(i64, B)>, E>,
    threads: usize,
) -> std::result::Result<Replay, E>
where
    B: AsRef<[u8]> + Send + Sync,
    E: From<Error>,
{
    let mut state = State::new(threads);
    let next = || -> std::result::Result<_, E> {
        let commit = next()?;
        Ok(commit.map(|(version, data)| {
            let bytes = data.as_ref().len();
            ((version, data), bytes)
        }))
    };
    let enough = BATCH_BYTES_PER_THREAD.saturating_mul(threads.max(1));
    parallel::pipeline(next, enough, |batch| state.process(batch))?;
    Ok(state.finish()?)
}

/// A run of whole lines of one commit.
struct Piece<'a> {
    commit: usize,
    /// Where it begins in the commit.
    start: usize,
    data: &'a [u8],
}

/// A parsed piece: its actions, and of each file action the key.
struct Parsed<'a> {
    start: usize,
    lines: Lines<'a>,
    adds: Vec<FileKey>,
    removes: Vec<FileKey>,
}

/// What identifies a logical file, beside the path as the log spells it.
struct FileKey {
    hash: u32,
    /// What nearly no file has.
    rare: Option<Box<RareKey>>,
}

#[derive(Default)]
struct RareKey {
    /// The path, where the log writes it with JSON escapes.
    resolved: Option<String>,
    /// The canonical spelling, where it is another.
    canonical: Option<Vec<u8>>,
    /// The unique id of the deletion vector; empty without one.
    vector: String,
}

impl FileKey {
    fn new(action: &FileAction, piece: &[u8], hasher: &KeyHasher) -> Self {
        let path = action.path.text(piece).unwrap_or_default();
        let spelling = canonical(&path);
        let hash = hasher.hash(&spelling);
        let other = (*spelling != *path.as_bytes()).then(|| spelling.into_owned());
        let vector = action.vector.as_deref().map(vector_id);
        if other.is_none() && vector.is_none() && matches!(path, Cow::Borrowed(_)) {
            return Self { hash, rare: None };
        }
        let resolved = if let Cow::Owned(path) = path { Some(path) } else { None };
        let rare = RareKey { resolved, canonical: other, vector: vector.unwrap_or_default() };
        Self { hash, rare: Some(Box::new(rare)) }
    }

    /// The path as the log means it.
    fn path<'k>(&'k self, action: &FileAction, piece: &'k [u8]) -> &'k [u8] {
        let resolved = self.rare.as_ref().and_then(|rare| rare.resolved.as_ref());
        resolved.map_or_else(|| action.path.bytes(piece), |path| path.as_bytes())
    }

    /// The canonical spelling, where it is another.
    fn canonical(&self) -> Option<&[u8]> {
        self.rare.as_ref().and_then(|rare| rare.canonical.as_deref())
    }

    fn vector(&self) -> &str {
        self.rare.as_ref().map_or("", |rare| &rare.vector)
    }
}

/// The rows of a piece that survive.
#[derive(Default)]
struct Survivors {
    adds: Vec<usize>,
    removes: Vec<usize>,
}

/// A surviving piece on its way to columns.
struct Work<'p, 'a> {
    version: i64,
    parsed: &'p Parsed<'a>,
    survivors: &'p Survivors,
    add_paths: StringArray,
    remove_paths: StringArray,
}

struct Built {
    adds: Option<RecordBatch>,
    removes: Option<RecordBatch>,
}

struct State {
    threads: usize,
    keys: Keys,
    paths: PathColumns,
    commits: u32,
    pieces: usize,
    adds: Vec<RecordBatch>,
    /// The batch of removes of each piece that has any.
    removes: Vec<(usize, RecordBatch)>,
    transactions: HashMap<String, (i64, Option<i64>)>,
    domains: HashMap<String, (String, bool)>,
    protocol: Option<(i64, String)>,
    metadata: Option<(i64, String)>,
}

impl State {
    fn new(threads: usize) -> Self {
        Self {
            threads,
            keys: Keys::default(),
            paths: PathColumns::default(),
            commits: 0,
            pieces: 0,
            adds: Vec::new(),
            removes: Vec::new(),
            transactions: HashMap::new(),
            domains: HashMap::new(),
            protocol: None,
            metadata: None,
        }
    }

    fn process<B: AsRef<[u8]> + Sync>(&mut self, batch: &[(i64, B)]) -> Result<()> {
        let pieces: Vec<Piece<'_>> = batch
            .iter()
            .enumerate()
            .flat_map(|(commit, (_, data))| {
                split(data.as_ref()).map(move |(start, data)| Piece { commit, start, data })
            })
            .collect();
        let bytes = batch.iter().fold(0_usize, |sum, (_, data)| sum.saturating_add(data.as_ref().len()));
        // Small commits are not worth a thread.
        let threads = if bytes <= PIECE_BYTES { 1 } else { self.threads };
        let hasher = self.keys.hasher().clone();
        let mut parsed =
            parallel::map(&pieces, threads, |piece| (piece.commit, parse_piece(piece, &hasher))).into_iter().peekable();
        let mut done = Vec::new();
        for (number, (version, _)) in batch.iter().enumerate() {
            let mut commit = Vec::new();
            let mut lines_before = 0_usize;
            while let Some((_, result)) = parsed.next_if(|(commit, _)| *commit == number) {
                let piece = result.map_err(|error| error.locate(*version, lines_before))?;
                lines_before = lines_before.saturating_add(piece.lines.count);
                commit.push(piece);
            }
            let survivors = self.decide(*version, &commit)?;
            self.keep_other_actions(*version, &commit);
            done.extend(commit.into_iter().zip(survivors).map(|(piece, survivors)| (*version, piece, survivors)));
        }
        self.build(&done, threads)
    }

    /// Shows the file actions of one commit to the keys: all adds before any remove, since the
    /// order of lines means nothing.
    fn decide(&mut self, version: i64, commit: &[Parsed<'_>]) -> Result<Vec<Survivors>> {
        let first = self.pieces;
        let mut survivors: Vec<Survivors> = Vec::new();
        for (piece, parsed) in commit.iter().enumerate() {
            self.paths.open_piece();
            let column = PathColumns::column(first.saturating_add(piece), false);
            let (data, mut live) = (parsed.lines.data, Survivors::default());
            for (row, (action, key)) in parsed.lines.adds.iter().zip(&parsed.adds).enumerate() {
                let path = key.path(action, data);
                let canonical = Key { path: key.canonical().unwrap_or(path), hash: key.hash };
                let place = self.paths.next_place(column, key.canonical().is_some());
                match self.keys.add(canonical, key.vector(), self.commits, place, &self.paths) {
                    Seen::First => {
                        self.paths.push(column, path, key.canonical())?;
                        live.adds.push(row);
                    }
                    Seen::Newer => {}
                    Seen::Conflict => return Err(added_twice(path, version)),
                }
            }
            survivors.push(live);
        }
        for ((piece, parsed), live) in commit.iter().enumerate().zip(&mut survivors) {
            let column = PathColumns::column(first.saturating_add(piece), true);
            for (row, (action, key)) in parsed.lines.removes.iter().zip(&parsed.removes).enumerate() {
                let path = key.path(action, parsed.lines.data);
                let canonical = Key { path: key.canonical().unwrap_or(path), hash: key.hash };
                let place = self.paths.next_place(column, key.canonical().is_some());
                if self.keys.remove(canonical, key.vector(), place, &self.paths) == Seen::First {
                    self.paths.push(column, path, key.canonical())?;
                    live.removes.push(row);
                }
            }
        }
        self.pieces = first.saturating_add(commit.len());
        self.commits = self.commits.saturating_add(1);
        Ok(survivors)
    }

    /// The newest of every other action wins; inside one commit the last line does.
    fn keep_other_actions(&mut self, version: i64, commit: &[Parsed<'_>]) {
        for piece in commit.iter().rev() {
            let data = piece.lines.data;
            for Transaction { app_id, version, last_updated } in piece.lines.transactions.iter().rev() {
                let app_id = app_id.text(data).unwrap_or_default().into_owned();
                self.transactions.entry(app_id).or_insert((*version, *last_updated));
            }
            for Domain { name, configuration, removed } in piece.lines.domains.iter().rev() {
                let name = name.text(data).unwrap_or_default().into_owned();
                let configuration = || configuration.text(data).unwrap_or_default().into_owned();
                self.domains.entry(name).or_insert_with(|| (configuration(), *removed));
            }
            let newest = |kept: &mut Option<(i64, String)>, found: Option<&[u8]>| {
                if let (None, Some(found)) = (&kept, found) {
                    *kept = Some((version, String::from_utf8_lossy(found).into_owned()));
                }
            };
            newest(&mut self.protocol, piece.lines.protocol);
            newest(&mut self.metadata, piece.lines.metadata);
        }
    }

    /// Builds the columns of what survived.
    fn build(&mut self, done: &[(i64, Parsed<'_>, Survivors)], threads: usize) -> Result<()> {
        let first_piece = self.pieces.saturating_sub(done.len());
        let mut columns = self.paths.close_pieces()?.into_iter();
        let mut work = Vec::new();
        for (number, (version, parsed, survivors)) in done.iter().enumerate() {
            let (Some(add_paths), Some(remove_paths)) = (columns.next(), columns.next()) else {
                return Err(columns::inconsistent("a piece without its paths"));
            };
            let piece = first_piece.saturating_add(number);
            work.push((piece, Work { version: *version, parsed, survivors, add_paths, remove_paths }));
        }
        for ((piece, _), built) in work.iter().zip(parallel::map(&work, threads, |(_, work)| build_piece(work))) {
            let built = built?;
            self.adds.extend(built.adds);
            self.removes.extend(built.removes.map(|removes| (*piece, removes)));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Replay> {
        let path_added = self.path_added();
        let mut removes = Vec::with_capacity(self.removes.len());
        for ((_, batch), added) in self.removes.iter().zip(path_added) {
            removes.push(columns::with_path_added(batch, added)?);
        }
        if self.adds.is_empty() {
            self.adds.push(columns::add_batch(&[], &Place::default(), no_paths())?);
        }
        if removes.is_empty() {
            let none = columns::remove_batch(&[], &Place::default(), no_paths())?;
            removes.push(columns::with_path_added(&none, BooleanArray::from(Vec::<bool>::new()))?);
        }
        Ok(Replay {
            adds: self.adds,
            removes,
            transactions: transactions_batch(self.transactions)?,
            domains: domains_batch(self.domains)?,
            protocol: self.protocol,
            metadata: self.metadata,
        })
    }

    /// For each batch of removes, which of its paths were added too: by an older commit, since
    /// otherwise the add would be live.
    fn path_added(&self) -> Vec<BooleanArray> {
        let mut batches: HashMap<u32, Vec<bool>> = HashMap::new();
        for (piece, batch) in &self.removes {
            batches.insert(PathColumns::column(*piece, true), vec![false; batch.num_rows()]);
        }
        for place in self.keys.added_places().filter_map(|place| self.paths.remove_at(place)) {
            let row = usize::try_from(place.row).unwrap_or(usize::MAX);
            if let Some(flag) = batches.get_mut(&place.column).and_then(|flags| flags.get_mut(row)) {
                *flag = true;
            }
        }
        let column = |piece: usize| PathColumns::column(piece, true);
        self.removes
            .iter()
            .map(|(piece, _)| BooleanArray::from(batches.remove(&column(*piece)).unwrap_or_default()))
            .collect()
    }
}

fn added_twice(path: &[u8], version: i64) -> Error {
    let path = String::from_utf8_lossy(path);
    let message = format!("{path:?} is added twice in one commit, with different deletion vectors");
    Error::new(ErrorKind::CorruptLog, message).with("version", version)
}

/// Cuts a log entry into pieces at line borders; gives where each begins.
fn split(data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0_usize;
    std::iter::from_fn(move || {
        let rest = data.get(start..).filter(|rest| !rest.is_empty())?;
        let border = rest.get(PIECE_BYTES..).and_then(|tail| memchr::memchr(b'\n', tail));
        let end = border.map_or(rest.len(), |border| PIECE_BYTES.saturating_add(border).saturating_add(1));
        let piece = (start, rest.get(..end).unwrap_or(rest));
        start = start.saturating_add(end);
        Some(piece)
    })
}

fn parse_piece<'a>(piece: &Piece<'a>, hasher: &KeyHasher) -> std::result::Result<Parsed<'a>, LineError> {
    if u32::try_from(piece.data.len()).is_err() {
        return Err(LineError { line: 0, what: "a line of more than 4 GiB".to_owned() });
    }
    let lines = line::parse(piece.data)?;
    let keys = |actions: &[FileAction]| actions.iter().map(|action| FileKey::new(action, piece.data, hasher)).collect();
    let (adds, removes) = (keys(&lines.adds), keys(&lines.removes));
    Ok(Parsed { start: piece.start, lines, adds, removes })
}

/// The unique id of a deletion vector (Delta protocol, "Derived Fields").
fn vector_id(vector: &DeletionVector) -> String {
    let (storage_type, path) = (&vector.storage_type, &vector.path_or_inline);
    match vector.offset {
        Some(offset) => format!("{storage_type}{path}@{offset}"),
        None => format!("{storage_type}{path}"),
    }
}

fn build_piece(work: &Work<'_, '_>) -> Result<Built> {
    let lines = &work.parsed.lines;
    let place = Place { version: work.version, start: work.parsed.start, data: lines.data };
    let mut built = Built { adds: None, removes: None };
    if !work.survivors.adds.is_empty() {
        let live: Vec<_> = work.survivors.adds.iter().filter_map(|row| lines.adds.get(*row)).collect();
        built.adds = Some(columns::add_batch(&live, &place, work.add_paths.clone())?);
    }
    if !work.survivors.removes.is_empty() {
        let gone: Vec<_> = work.survivors.removes.iter().filter_map(|row| lines.removes.get(*row)).collect();
        built.removes = Some(columns::remove_batch(&gone, &place, work.remove_paths.clone())?);
    }
    Ok(built)
}

fn no_paths() -> StringArray {
    StringArray::from(Vec::<&str>::new())
}

fn transactions_batch(transactions: HashMap<String, (i64, Option<i64>)>) -> Result<RecordBatch> {
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

fn domains_batch(domains: HashMap<String, (String, bool)>) -> Result<RecordBatch> {
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
