//! Threads that end with the call: those of a pool would outlive it, and would be missing after a fork.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::Error;

/// Maps `work` over the items on up to `threads` threads, and keeps their order.
///
/// A panic in a thread continues in the caller.
pub fn map<I: Sync, T: Send>(items: &[I], threads: usize, work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_turns)).collect();
        let mut results = take_turns();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// How many rows are computed at a time: enough to make starting a thread worth it.
const PIECE: usize = 1 << 16;

/// Builds a column of `length` values that `work` computes piece by piece on up to `threads` threads.
///
/// `work` takes the index of the first value of a piece, and the piece.
pub fn fill<T: Clone + Default + Send>(length: usize, threads: usize, work: impl Fn(usize, &mut [T]) + Sync) -> Vec<T> {
    fill_rows(length, 1, threads, work)
}

/// Builds a column as `fill` does, whose rows have `width` values each, which is not 0.
///
/// `work` takes the index of the first row of a piece, and the values of the piece.
pub fn fill_rows<T: Clone + Default + Send>(
    rows: usize,
    width: usize,
    threads: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) -> Vec<T> {
    let mut values = vec![T::default(); rows.saturating_mul(width)];
    let starts = (0..rows).step_by(PIECE);
    let pieces: Vec<_> = starts.zip(values.chunks_mut(PIECE.saturating_mul(width)).map(Mutex::new)).collect();
    map(&pieces, threads, |(start, piece)| work(*start, &mut piece.lock().unwrap_or_else(PoisonError::into_inner)));
    drop(pieces);
    values
}

/// Pulls items until each batch holds about `enough` bytes, and processes one batch on another
/// thread while the next is pulled on this one. The last batch is processed on this one.
///
/// `next` returns an item and its size in bytes. An error of `process` takes precedence over one of a later pull.
pub fn pipeline<T: Send + Sync, E: From<Error>>(
    mut next: impl FnMut() -> Result<Option<(T, usize)>, E>,
    enough: usize,
    mut process: impl FnMut(&[T]) -> Result<(), Error> + Send,
) -> Result<(), E> {
    let mut pull = || -> Result<(Vec<T>, bool), E> {
        let (mut batch, mut bytes) = (Vec::new(), 0_usize);
        while bytes < enough {
            let Some((item, size)) = next()? else { return Ok((batch, true)) };
            bytes = bytes.saturating_add(size);
            batch.push(item);
        }
        Ok((batch, false))
    };
    let (mut batch, mut is_last) = pull()?;
    while !is_last {
        let (done, pulled) = thread::scope(|scope| {
            let worker = scope.spawn(|| process(&batch));
            let pulled = pull();
            (worker.join(), pulled)
        });
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        (batch, is_last) = pulled?;
    }
    if !batch.is_empty() {
        process(&batch)?;
    }
    Ok(())
}
