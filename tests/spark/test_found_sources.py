"""``spark.read.format("delta")`` works once the package is installed: PySpark finds modules named ``pyspark_*``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg
import deltaberg.spark
from tests.spark.doors import VERSION, needs_data_sources

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_FORMATS = ["delta", "iceberg"]
#: What PySpark does to find Data Sources, and what has been loaded for it.
_LOOK = """
import json, sys
{before}
before = set(sys.modules)
from importlib import import_module
from pkgutil import iter_modules
found = [import_module(one.name) for one in iter_modules() if one.name.startswith("pyspark_")]
sources = [one.DefaultSource.name() for one in found if hasattr(one, "DefaultSource")]
print(json.dumps([sources, sorted(set(sys.modules) - before)]))
"""


def _look(before: str, **environment: str) -> tuple[list[str], list[str]]:
    command = [sys.executable, "-c", _LOOK.format(before=before)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    assert ended.stderr == ""
    sources, loaded = json.loads(ended.stdout)
    return sources, loaded


@pytest.mark.spark
@needs_data_sources
@pytest.mark.one_backend
@pytest.mark.parametrize("format", _FORMATS)
def test_nothing_has_to_be_registered(spark: Any, tmp_path: Path, format: str) -> None:
    # What other tests register belongs to their session.
    session, root = spark.newSession(), tmp_path / "table"
    rows = session.createDataFrame([(1, "a"), (2, "b")], "id bigint, name string")
    rows.write.format(format).mode("append").save(str(root))
    assert deltaberg.open_table(root).scan().count() == 2
    assert session.read.format(format).load(str(root)).sort("id").collect() == rows.collect()


@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.skipif(VERSION < (4, 1), reason="filters reach Python Data Sources since Spark 4.1")
def test_filters_are_pushed_only_on_request(spark: Any, tmp_path: Path) -> None:
    session, root = spark.newSession(), str(tmp_path / "table")
    deltaberg.write_table(root, pa.table({"id": [1, 2]}))
    session.conf.set(_PUSHDOWN, "true")
    frame = session.read.format("delta").load(root)
    # With filters pushed, Spark would keep one plan for both.
    assert frame.filter("id = 1").union(frame.filter("id = 2")).count() == 2
    deltaberg.spark.register(session, push_filters=True)
    assert session.read.format("delta").load(root).filter("id = 2").count() == 1


@needs_data_sources
@pytest.mark.one_backend
def test_looking_for_sources_loads_little() -> None:
    """Each session that meets the name of a format pays for it."""
    sources, loaded = _look("import pyspark.sql.datasource")
    assert sources == _FORMATS
    own = [name for name in loaded if name.partition(".")[0] in ("deltaberg", "pyspark")]
    assert len(own) < 10
    assert not [name for name in loaded if name.partition(".")[0] in ("pyarrow", "pandas", "numpy", "obstore")]


@pytest.mark.one_backend
def test_a_variable_switches_them_off() -> None:
    sources, loaded = _look("", DELTABERG_SPARK_SOURCES="off")
    assert sources == []
    assert "deltaberg" not in loaded


@pytest.mark.one_backend
@pytest.mark.parametrize("missing", ["pyspark", "pyspark.sql.datasource"])
def test_without_data_sources_there_is_nothing_to_find(missing: str) -> None:
    """An error would hide the sources of all other packages. PySpark 3.5 has no Data Sources."""
    assert _look(f"sys.modules[{missing!r}] = None")[0] == []
