"""The cases of single kernels that read and write the logs of Delta tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benches import data
from benches.measure import Case
from benches.single_kernel_work import Work, single_kernel_case

__all__ = ["LOG_KERNEL_CASES"]

_LEAVES: list[tuple[list[str], str]] = [(["id"], "long"), (["s"], "string"), (["ts"], "timestamp")]


def _log(scale: float) -> list[tuple[int, bytes]]:
    """Return the newest tenth of the commits."""
    files = sorted((data.log(scale) / "_delta_log").glob("*.json"))
    return [(int(file.stem), file.read_bytes()) for file in reversed(files[-max(len(files) // 10, 1) :])]


def _size(log: list[tuple[int, bytes]]) -> int:
    return sum(len(commit) for _, commit in log)


def _adds(scale: float, *names: str) -> list[Any]:
    """Return columns of the added files."""
    from deltaberg import kernels

    adds = kernels.replay(iter(_log(scale)), 1).adds
    return [adds.column(name).combine_chunks() for name in names]


def _replay(scale: float) -> Work:
    from deltaberg import kernels

    log = _log(scale)
    actions = sum(commit.count(b"\n") for _, commit in log)
    return Work(
        lambda: kernels.replay(iter(log), 1), actions, _size(log), lambda found: [len(found.adds), len(found.removes)]
    )


def _reconcile(scale: float) -> Work:
    """Look up the files of the older half of the commits among those that the newer half added and removed."""
    from deltaberg import kernels

    log = _log(scale)
    newer, older = kernels.replay(iter(log[: len(log) // 2]), 1), kernels.replay(iter(log[len(log) // 2 :]), 1).adds
    adds, removes = newer.adds.to_batches(), newer.removes.to_batches()
    rows = older.select(["path", "deletionVector"])
    keys = [newer.adds.column("path"), newer.removes.column("path"), rows.column("path")]
    return Work(
        lambda: kernels.reconcile(adds, removes, rows.to_batches(), "add", 1),
        sum(map(len, keys)),
        sum(column.nbytes for column in keys),
        lambda keep: pc.sum(keep).as_py(),
    )


def _log_stats(scale: float) -> Work:
    from deltaberg import kernels

    versions, places = _adds(scale, "version", "stats")
    wanted = set(versions.to_pylist())
    given = [commit for commit in _log(scale) if commit[0] in wanted]
    size = pc.sum(pc.struct_field(places, "length")).as_py()
    return Work(lambda: kernels.parse_log_stats(versions, places, iter(given), _LEAVES, 1), len(versions), size)


def _newest(scale: float) -> tuple[bytes, pa.StructArray]:
    """Return the newest commit, and where the statistics of its files are."""
    from deltaberg import kernels

    log = _log(scale)[:1]
    return log[0][1], kernels.replay(iter(log), 1).adds.column("stats").combine_chunks()


def _texts(scale: float) -> pa.StringArray:
    from deltaberg import kernels

    return kernels.stats_texts(*_newest(scale), 1)


def _stats_texts(scale: float) -> Work:
    from deltaberg import kernels

    commit, places = _newest(scale)
    size = pc.sum(pc.struct_field(places, "length")).as_py()
    return Work(lambda: kernels.stats_texts(commit, places, 1), len(places), size)


def _parse_stats(scale: float) -> Work:
    from deltaberg import kernels

    texts = _texts(scale)
    return Work(lambda: kernels.parse_stats(texts, _LEAVES, 1), len(texts), texts.nbytes)


def _format_stats(scale: float) -> Work:
    from deltaberg import kernels

    found = kernels.parse_stats(_texts(scale), _LEAVES, 1).combine_chunks()
    (batch,) = found.to_batches()
    paths = [path for path, _ in _LEAVES]
    return Work(lambda: kernels.format_stats(batch, paths, True, 1), len(batch), batch.nbytes)


def _partition_values(scale: float) -> Work:
    from deltaberg import kernels

    (maps,) = _adds(scale, "partitionValues")
    return Work(lambda: kernels.parse_partition_values(maps, [("p", "long")]), len(maps), maps.nbytes, len)


def _path_set(scale: float) -> Work:
    from deltaberg import kernels

    (paths,) = _adds(scale, "path")
    return Work(lambda: kernels.PathSet([paths]).contains(paths), len(paths), paths.nbytes)


def _locate(changed: Callable[[pa.StringArray], pa.StringArray], prefix: str = "") -> Callable[[float], Work]:
    def prepare(scale: float) -> Work:
        from deltaberg import kernels

        paths = changed(*_adds(scale, "path"))
        return Work(lambda: kernels.locate_paths(paths, prefix, "/table/", not prefix), len(paths), paths.nbytes)

    return prepare


def _escaped(paths: pa.StringArray) -> pa.StringArray:
    return pc.replace_substring(paths, "part-", "part%20%2D")


def _absolute(paths: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise("s3://bucket/table", paths, "/")


def _fingerprint(scale: float) -> Work:
    from deltaberg import kernels

    commit = b"".join(entry for _, entry in _log(scale))
    return Work(lambda: kernels.fingerprint(commit), len(commit) >> 10, len(commit), lambda found: found)


def _case(title: str, prepare: Callable[[float], Work]) -> Case:
    return single_kernel_case(title, data.log, prepare)


LOG_KERNEL_CASES: dict[str, Case] = {
    "kernel-replay": _case("`replay`, per action with statistics of 6 columns", _replay),
    "kernel-reconcile": _case("`reconcile`, per file", _reconcile),
    "kernel-log-stats": _case("`parse_log_stats` of 3 columns, per file", _log_stats),
    "kernel-stats-texts": _case("`stats_texts`, per file", _stats_texts),
    "kernel-stats": _case("`parse_stats` of 3 columns, per file", _parse_stats),
    "kernel-format-stats": _case("`format_stats` of 3 columns, per file", _format_stats),
    "kernel-partition-values": _case("`parse_partition_values` of an integer, per file", _partition_values),
    "kernel-path-set": _case("`PathSet` built and asked, per path", _path_set),
    "kernel-locate": _case("`locate_paths`, per path", _locate(lambda paths: paths)),
    "kernel-locate-escaped": _case("`locate_paths` with two escapes, per path", _locate(_escaped)),
    "kernel-locate-prefix": _case(
        "`locate_paths` of absolute paths, per path", _locate(_absolute, "s3://bucket/table/")
    ),
    "kernel-fingerprint": _case("`fingerprint`, per KiB", _fingerprint),
}
