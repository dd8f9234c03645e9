//! The number of threads changes how long a kernel takes, and nothing else.

use std::fmt::Write as _;

use arrow_array::{Array as _, RecordBatch, StringArray};
use deltaberg_core::deltalog::{Replay, Role, reconcile, replay};
use deltaberg_core::stats::{StatsLeaf, parse_stats};
use deltaberg_core::{Error, PrimitiveType};

/// Commits of more than one piece each, newest first: later ones remove and replace what earlier ones add.
fn commits() -> Vec<(i64, Vec<u8>)> {
    let mut commits = Vec::new();
    for version in (0_i64..6).rev() {
        let mut text = String::new();
        for file in 0_i64..9_000 {
            let path = (file.wrapping_mul(7).wrapping_add(version.wrapping_mul(4_000))).rem_euclid(30_000);
            let pad = "x".repeat(usize::try_from(file.rem_euclid(97)).unwrap_or(0));
            if file % 5 == version % 5 {
                let _ = writeln!(text, r#"{{"remove":{{"path":"p/{path}","dataChange":true,"new":"{pad}"}}}}"#);
            } else {
                let _ = writeln!(
                    text,
                    r#"{{"add":{{"path":"p/{path}","partitionValues":{{"p":"{pad}"}},"size":{file},"modificationTime":{version},"dataChange":true,"stats":"{{\"numRecords\":{file},\"x\":\"{pad}\"}}"}}}}"#
                );
            }
        }
        commits.push((version, text.into_bytes()));
    }
    commits
}

fn replayed(threads: usize) -> Result<Replay, Error> {
    let mut commits = commits().into_iter();
    replay(|| Ok::<_, Error>(commits.next()), threads)
}

#[test]
fn replay_and_reconcile() -> Result<(), Error> {
    let (one, many) = (replayed(1)?, replayed(5)?);
    assert!(one.adds.iter().map(RecordBatch::num_rows).sum::<usize>() > 10_000);
    assert!(one.adds.len() > 6, "the commits were meant to be of several pieces each");
    assert_eq!(one.adds, many.adds);
    assert_eq!(one.removes, many.removes);
    let newer = one.adds.get(..2).unwrap_or_default();
    let masks = |threads| reconcile(newer, &one.removes, &one.adds, Role::Add, threads);
    let alone = masks(1)?;
    assert!(alone.iter().any(|mask| mask.true_count() > 0 && mask.false_count() < mask.len()));
    assert_eq!(alone, masks(5)?);
    Ok(())
}

#[test]
fn the_first_error_is_the_same() {
    let failure = |threads: usize| {
        let mut texts = commits();
        for (_, text) in texts.iter_mut().skip(2) {
            let middle = text.len() / 2;
            text.truncate(middle);
        }
        let mut texts = texts.into_iter();
        replay(|| Ok::<_, Error>(texts.next()), threads).err()
    };
    let alone = failure(1);
    assert!(alone.is_some());
    assert_eq!(alone, failure(5));
}

#[test]
fn statistics() -> Result<(), Error> {
    let texts: StringArray = (0..40_000_u32)
        .map(|row| (row % 7 != 0).then(|| format!(r#"{{"numRecords":{row},"minValues":{{"a":{{"b":"{row}"}}}}}}"#)))
        .collect();
    let leaf = StatsLeaf { path: vec!["a".to_owned(), "b".to_owned()], primitive: Some(PrimitiveType::String) };
    let alone = parse_stats(&texts, std::slice::from_ref(&leaf), 1)?;
    assert_eq!(alone.iter().map(RecordBatch::num_rows).sum::<usize>(), texts.len());
    assert_eq!(alone, parse_stats(&texts, &[leaf], 5)?);
    Ok(())
}
