"""What type checkers know of the public functions. mypy checks it: a type that differs fails the lint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, IcebergTable, Scan, open_table, write_table
from deltaberg.choices import Format

if TYPE_CHECKING:
    from typing_extensions import assert_type

pytestmark = pytest.mark.one_backend


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A Delta table and an Iceberg table."""
    formats: dict[str, Format] = {"d": "delta", "i": "iceberg"}
    for name, kind in formats.items():
        write_table(tmp_path / name, pa.table({"id": [1]}), format=kind)
    return tmp_path / "d", tmp_path / "i"


def test_a_format_says_which_table_is_opened(places: tuple[Path, Path]) -> None:
    delta, iceberg = open_table(places[0], "delta"), open_table(places[1], format="iceberg")
    if TYPE_CHECKING:
        assert_type(delta, DeltaTable)
        assert_type(iceberg, IcebergTable)
    assert (type(delta), type(iceberg)) == (DeltaTable, IcebergTable)


def test_without_a_format_it_is_one_of_the_two(places: tuple[Path, Path]) -> None:
    for place, kind in zip(places, (DeltaTable, IcebergTable), strict=True):
        table = open_table(place)
        scan = table.scan("id = 1", ["id"], limit=1)
        chosen: Format | None = None
        other = open_table(place, chosen)
        if TYPE_CHECKING:
            assert_type(table, DeltaTable | IcebergTable)
            assert_type(other, DeltaTable | IcebergTable)
            assert_type(scan, Scan)
        assert [type(table), type(other)] == [kind, kind]
        assert scan.count() == 1


def test_what_both_tables_have_needs_no_check(places: tuple[Path, Path]) -> None:
    """The verbs with the same words in both formats, for a caller who does not know the format."""
    for place in places:
        table = open_table(place)
        table.append(pa.table({"id": [2]}))
        table.delete("id = 1")
        found: Any = open_table(place).scan().to_arrow()["id"].to_pylist()
        assert found == [2]
        assert table.location == str(place)
        assert table.schema.names == ["id"]
