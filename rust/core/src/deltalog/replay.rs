//! Replay of commits, newest first. Each batch of commits takes three steps: its pieces are parsed in
//! parallel, then one hash probe per action decides in order which are live, and the columns of the
//! live ones are built in parallel. Memory depends on the live files and tombstones, not on the history.

use std::collections::HashMap;

use arrow_array::{BooleanArray, RecordBatch, StringArray};

use super::columns::{self, Place};
use super::keys::{Key, Keys, Seen};
use super::newest::{self, Newest};
use super::paths::PathColumns;
use super::pieces::{self, PIECE_BYTES, Parsed, Piece};
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::parallel;

/// Commits are batched until each thread has about this many bytes to parse.
const BATCH_BYTES_PER_THREAD: usize = 8 << 20;

/// The state that a run of commits leaves behind.
pub struct Replay {
    /// Live files. `stats` is the place of their text in the bytes of the commit `version`.
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

/// Replays the commits that `next` returns as (version, bytes), newest first.
///
/// # Errors
/// `CorruptLog` with version and line if an entry is not valid, and any error of `next`.
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
    /// The tombstones of each piece that has any.
    removes: Vec<(usize, RecordBatch)>,
    newest: Newest,
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
            newest: Newest::default(),
        }
    }

    fn process<B: AsRef<[u8]> + Sync>(&mut self, batch: &[(i64, B)]) -> Result<()> {
        let pieces: Vec<Piece<'_>> = batch
            .iter()
            .enumerate()
            .flat_map(|(commit, (_, data))| {
                pieces::split(data.as_ref()).map(move |(start, data)| Piece { commit, start, data })
            })
            .collect();
        let bytes = batch.iter().fold(0_usize, |sum, (_, data)| sum.saturating_add(data.as_ref().len()));
        // Small commits are not worth a thread.
        let threads = if bytes <= PIECE_BYTES { 1 } else { self.threads };
        let hasher = self.keys.hasher().clone();
        let mut parsed = parallel::map(&pieces, threads, |piece| (piece.commit, pieces::parse(piece, &hasher)))
            .into_iter()
            .peekable();
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
            self.newest.keep(*version, commit.iter().map(|piece| &piece.lines));
            done.extend(commit.into_iter().zip(survivors).map(|(piece, survivors)| (*version, piece, survivors)));
        }
        self.build(&done, threads)
    }

    /// Shows the file actions of one commit to the keys: all adds before any remove, since the
    /// order of lines has no meaning.
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

    /// Builds the columns of the surviving actions.
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
            self.adds.push(columns::add_batch(&[], &Place::default(), StringArray::new_null(0))?);
        }
        if removes.is_empty() {
            let none = columns::remove_batch(&[], &Place::default(), StringArray::new_null(0))?;
            removes.push(columns::with_path_added(&none, BooleanArray::from(Vec::<bool>::new()))?);
        }
        Ok(Replay {
            adds: self.adds,
            removes,
            transactions: newest::transactions_batch(self.newest.transactions)?,
            domains: newest::domains_batch(self.newest.domains)?,
            protocol: self.newest.protocol,
            metadata: self.newest.metadata,
        })
    }

    /// For each batch of removes, which of its paths were added too. That was in an older commit,
    /// since otherwise the add would be live.
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
    let message = format!("{} is added twice in one commit, with different deletion vectors", quoted(&path));
    Error::new(ErrorKind::CorruptLog, message).with("version", version)
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
