"""What the Data Sources say of a commit, in the same options for both formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import IcebergTable, open_table
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.spark.source.delta_write_options import DeltaWriteOptions
from deltaberg.spark.source.iceberg_write_options import IcebergWriteOptions
from deltaberg.spark.source.raised import briefly
from tests.spark.doors import SourceWrites, needs_data_sources

pytestmark = [pytest.mark.spark, pytest.mark.one_backend, needs_data_sources]

_OPTIONS: dict[str, type[DeltaWriteOptions | IcebergWriteOptions]] = {
    "delta": DeltaWriteOptions,
    "iceberg": IcebergWriteOptions,
}
_ROWS = pa.table({"id": [1]})


@pytest.mark.parametrize("kind", _OPTIONS)
def test_what_the_history_says(kind: str, tmp_path: Path) -> None:
    write = SourceWrites(_OPTIONS[kind]).write
    write(_ROWS, tmp_path / "t", **{"snapshot-property.load": "nightly"})
    table = open_table(tmp_path / "t")
    said: Any = table.snapshots[-1].summary if isinstance(table, IcebergTable) else table.history(1)[0].info
    assert said["load"] == "nightly"


@pytest.mark.parametrize(
    ("kind", "name"), [("delta", "operation"), ("iceberg", "operation"), ("iceberg", "total-records")]
)
def test_what_the_library_says_is_not_said_by_others(kind: str, name: str, tmp_path: Path) -> None:
    writes = SourceWrites(_OPTIONS[kind])
    writes.write(_ROWS, tmp_path / "t")
    with pytest.raises(InvalidArgumentError, match=f"{name} is recorded by the library itself"):
        writes.write(_ROWS, tmp_path / "t", **{f"snapshot-property.{name}": "x"})
    assert open_table(tmp_path / "t").scan().count() == 1


@pytest.mark.parametrize(
    ("kind", "options", "message", "hint"),
    [
        ("delta", {"branch": "b"}, "the option branch applies only to Iceberg tables", "leave it out"),
        ("iceberg", {"userMetadata": "x"}, "the option userMetadata applies only to Delta tables", "snapshot-property"),
    ],
)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_options_of_the_other_format_are_refused_by_name(
    kind: str, options: dict[str, str], message: str, hint: str, mode: str, tmp_path: Path
) -> None:
    @briefly
    def stage(place: str) -> None:
        made = _OPTIONS[kind]({"path": place, **options})
        made.stage(_ROWS.schema, overwrite=mode == "overwrite")

    SourceWrites(_OPTIONS[kind]).write(_ROWS, tmp_path / "there")
    # Whether there is a table already, or the write would create it.
    for place in ("there", "new"):
        with pytest.raises(UnsupportedFeatureError, match=message) as caught:
            stage(str(tmp_path / place))
        assert hint in str(caught.value.hint)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", _OPTIONS)
def test_progress_needs_a_name_and_a_version(kind: str, tmp_path: Path) -> None:
    for options in ({"txnAppId": "app"}, {"txnVersion": "1"}):
        with pytest.raises(InvalidArgumentError, match="need each other"):
            SourceWrites(_OPTIONS[kind]).write(_ROWS, tmp_path / "t", **options)
