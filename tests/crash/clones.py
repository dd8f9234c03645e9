"""Operations of the harness that make tables of others, or leave versions of them behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.delta.after_commit.log_cleanup import clean_up_log
from deltaberg.delta.maintain import feature_drop
from deltaberg.errors import StorageError
from tests.crash.starts import COLUMNS, source_of_clone
from tests.crash.targets import Target

__all__ = ["clone", "clone_again", "clone_iceberg", "cut_off_history"]


@contextmanager
def _source() -> Iterator[Path]:
    """Make a directory for the source of a clone, which may stay if the operation is disturbed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _told() -> Iterator[None]:
    """Let the tests' own maker of tables fail as the product does: the harness disturbs it, too."""
    try:
        yield
    except OSError as error:
        raise StorageError(str(error)) from error


def clone(at: Target) -> Any:
    """Make a table of copies of the files of another one."""
    with _source() as folder:
        with _told():
            source_of_clone(folder, (1, 2, 3), (4, 5, 6))
        return deltaberg.DeltaTable(folder).clone(at.location, storage_options=dict(at.options))


def clone_iceberg(at: Target) -> Any:
    """Do the same with an Iceberg table, whose deletes by position are written anew, and one by keys is copied."""
    with _source() as folder:
        source: Any = deltaberg.create_table(f"{folder}/t", COLUMNS, format="iceberg")
        source.append(pa.table({"id": range(9), "value": range(0, 90, 10)}, COLUMNS))
        source.delete("id IN (0, 7)", strategy="merge-on-read")
        source.delete_by_keys(pa.table({"id": [8]}))
        return at.clone(source)


def cut_off_history(at: Target) -> Any:
    """Drop a feature whose last traces are older than a day by now."""
    with pytest.MonkeyPatch.context() as patch:
        later = time.time_ns() // 1_000_000 + 2 * 86_400_000
        patch.setattr(feature_drop, "clean_up_log", partial(clean_up_log, at=later))
        return at.table.drop_feature("deletionVectors", truncate_history=True)


def clone_again(at: Target) -> Any:
    """Make a clone follow its source, which has another file by now, and lacks one."""
    with _source() as folder:
        with _told():
            source_of_clone(folder, (1, 2, 3), (4, 5, 6), (7, 8))
        source = deltaberg.DeltaTable(folder)
        source.delete("id < 4")
        return source.clone(at.location, storage_options=dict(at.options))
