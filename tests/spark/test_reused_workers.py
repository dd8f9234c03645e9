"""Workers of Spark that it keeps: short tasks are not mostly spent on what CPython and PySpark do between them."""

from __future__ import annotations

import gc
import sys
import zipfile
import zipimport
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from deltaberg.spark.read.read_tasks import task_groups
from deltaberg.spark.reused_workers import spare_next_task
from deltaberg.spark.source.raised import briefly, briefly_yielded

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize(
    "begin",
    [lambda: list(task_groups([], None)), briefly(lambda: None), lambda: list(briefly_yielded(lambda: iter(()))())],
)
def test_no_task_has_the_archives_of_spark_read_again(
    begin: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of Spark load PySpark from an archive, beside a jar; the workers of these tests have neither."""
    archives = {name: tmp_path / name for name in ("pyspark.zip", "spark-core.jar", "own.zip")}
    for archive in archives.values():
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("x.py", "")
        monkeypatch.setitem(sys.path_importer_cache, str(archive), zipimport.zipimporter(str(archive)))
    monkeypatch.setattr("pyspark.__file__", f"{archives['pyspark.zip']}/pyspark/__init__.py")
    begin()
    assert {str(archive) for archive in archives.values()} & sys.path_importer_cache.keys() == {
        str(archives["own.zip"])
    }


def test_a_kept_worker_collects_no_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are frozen once, and again where later tasks load others; nothing is frozen in processes of the user."""
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(sys.modules)))
    monkeypatch.setattr("deltaberg.spark.reused_workers._frozen_modules", 0)
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    spare_next_task()
    assert frozen == []
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    spare_next_task()
    spare_next_task()
    monkeypatch.setitem(sys.modules, "loaded_by_a_later_task", ModuleType("loaded_by_a_later_task"))
    spare_next_task()
    assert frozen == [len(sys.modules) - 1, len(sys.modules)]
