"""The cost curves: the same rows in more files, with more deleted rows, or with more delete files."""

from __future__ import annotations

from pathlib import Path

from benches import data, delta_cases, iceberg_cases, iceberg_data
from benches.measure import Case, Made

__all__ = ["CURVE_CASES"]

_FILES = (10, 100, 1000)
_PERCENTS = (1, 10)
_DELETE_FILES = (1, 10, 100)
_PLAN_TIMES = 10


def _window(scale: float) -> tuple[int, int]:
    """Return the bounds of a range with a tenth of the ids."""
    rows = int(data.SPREAD * scale)
    return rows // 2, rows // 2 + max(rows // 10, 1)


def _condition(scale: float) -> str:
    low, high = _window(scale)
    return f"id >= {low} AND id < {high}"


def _delta(files: int, percent: int = 0) -> Made:
    return lambda scale: data.spread(scale, files, percent)


def _iceberg(files: int, percent: int = 0) -> Made:
    return lambda scale: iceberg_data.spread(scale, files, percent)


def _delta_scan(title: str, made: Made) -> Case:
    sides = {"deltaberg": delta_cases.ours_scan(made, data.TWO), "polars": delta_cases.polars_scan(made, data.TWO)}
    return Case(title, made, sides)


def _iceberg_scan(title: str, made: Made) -> Case:
    return Case(
        title, made, {"deltaberg": iceberg_cases.ours_scan(made), "pyiceberg": iceberg_cases.pyiceberg_scan(made)}
    )


def _delta_plan(title: str, prepare: Made) -> Case:
    sides = {
        "deltaberg": delta_cases.ours_plan(prepare, _window, times=_PLAN_TIMES),
        "deltalake": delta_cases.deltalake_plan(prepare, _window, times=_PLAN_TIMES),
    }
    return Case(title, prepare, sides)


def _iceberg_plan(title: str, prepare: Made) -> Case:
    sides = {
        "deltaberg": iceberg_cases.ours_plan(prepare, _condition, _PLAN_TIMES),
        "pyiceberg": iceberg_cases.pyiceberg_plan(prepare, _condition, _PLAN_TIMES),
    }
    return Case(title, prepare, sides)


def _key_files(files: int) -> Case:
    def made(scale: float) -> Path:
        return iceberg_data.key_files(scale, files)

    title = f"Iceberg: the same with {files} equality delete files of 1,000 keys, which pyiceberg refuses"
    return Case(
        title, made, {"deltaberg": iceberg_cases.ours_scan(made), "iceberg-spark": iceberg_cases.spark_scan(made)}
    )


CURVE_CASES: dict[str, Case] = {
    **{
        f"files-plan-{files}": _delta_plan(
            f"Delta: open, and plan a tenth of 2M rows in {files:,} files", _delta(files)
        )
        for files in _FILES
    },
    **{
        f"files-scan-{files}": _delta_scan(f"Delta: read 2 of 6 columns of 2M rows in {files:,} files", _delta(files))
        for files in _FILES
    },
    **{
        f"deleted-{percent}": _delta_scan(
            f"Delta: the same of 10 files with {percent} % deleted by deletion vectors", _delta(10, percent)
        )
        for percent in _PERCENTS
    },
    **{
        f"iceberg-files-plan-{files}": _iceberg_plan(
            f"Iceberg: open, and plan a tenth of 2M rows in {files:,} files", _iceberg(files)
        )
        for files in _FILES
    },
    **{
        f"iceberg-files-scan-{files}": _iceberg_scan(
            f"Iceberg: read 2 of 6 columns of 2M rows in {files:,} files", _iceberg(files)
        )
        for files in _FILES
    },
    **{
        f"iceberg-deleted-{percent}": _iceberg_scan(
            f"Iceberg: the same of 10 files with {percent} % deleted by position deletes", _iceberg(10, percent)
        )
        for percent in _PERCENTS
    },
    **{f"iceberg-key-files-{files}": _key_files(files) for files in _DELETE_FILES},
}
