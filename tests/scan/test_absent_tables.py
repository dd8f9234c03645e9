"""What is said where there is no table: what is there instead."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import DeltaTable, IcebergTable, convert_to_delta, convert_to_iceberg, open_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import AuthenticationError, TableNotFoundError
from deltaberg.storage.local import LocalStorage
from tests.support.command_line import call

pytestmark = pytest.mark.one_backend

_OPENED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "open_table": (open_table, "there is no table"),
    "format=delta": (lambda place: open_table(place, "delta"), "there is no Delta table"),
    "format=iceberg": (lambda place: open_table(place, "iceberg"), "there is no Iceberg table"),
    "DeltaTable": (DeltaTable, "there is no Delta table"),
    "IcebergTable": (IcebergTable, "there is no Iceberg table"),
    "convert_to_delta": (convert_to_delta, "there is nothing to convert"),
    "convert_to_iceberg": (convert_to_iceberg, "there is nothing to convert"),
}


@pytest.fixture(params=_OPENED)
def opened(request: pytest.FixtureRequest) -> tuple[Callable[[Any], Any], str]:
    """A way to open a table, and what its errors begin with."""
    return _OPENED[request.param]


def _raised(opened: tuple[Callable[[Any], Any], str], place: object) -> TableNotFoundError:
    with pytest.raises(TableNotFoundError) as caught:
        opened[0](place)
    assert caught.value.context == {"table": str(place)}
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("check the location")
    return caught.value


def test_the_directory_does_not_exist(opened: tuple[Callable[[Any], Any], str], tmp_path: Path) -> None:
    assert _raised(opened, tmp_path / "no" / "such").message == f"{opened[1]}: the directory does not exist"


def test_it_is_a_file(opened: tuple[Callable[[Any], Any], str], tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    assert _raised(opened, tmp_path / "a.parquet").message == f"{opened[1]}: this is a file, not a directory"


def test_the_directory_holds_something_else(opened: tuple[Callable[[Any], Any], str], tmp_path: Path) -> None:
    (tmp_path / "_notes").mkdir()
    message = _raised(opened, tmp_path).message
    assert message.startswith(f"{opened[1]}: ")
    assert "_delta_log" in message or "metadata/" in message or message.endswith("has no data files")


def test_the_store_has_nothing_there(opened: tuple[Callable[[Any], Any], str]) -> None:
    place = f"memory://{uuid.uuid4()}/t"
    assert _raised(opened, place).message == f"{opened[1]}: the store has nothing at this location"


def test_a_directory_that_cannot_be_looked_into(
    opened: tuple[Callable[[Any], Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is still that there is no table."""

    def refuse(*_: object) -> list[str]:
        raise AuthenticationError("no")

    monkeypatch.setattr(LocalStorage, "directories", refuse)
    assert _raised(opened, tmp_path / "none").message.startswith(f"{opened[1]}: ")


@pytest.mark.parametrize(("format", "other"), [("delta", "iceberg"), ("iceberg", "delta")])
def test_it_is_of_the_other_format(format: Format, other: Format, tmp_path: Path) -> None:
    write_table(tmp_path, pa.table({"id": [1]}), format=other)
    for opened in (
        lambda: open_table(tmp_path, format),
        lambda: {"delta": DeltaTable, "iceberg": IcebergTable}[format](tmp_path),
    ):
        with pytest.raises(TableNotFoundError) as caught:
            opened()
        assert str(caught.value.hint).endswith(f': use format="{other}"')


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("@v0", "leave @v0 out of the location, and open it with version=0"),
        (
            "@20240131120000000",
            'leave @20240131120000000 out of the location, and open it with timestamp="2024-01-31 12:00:00.000"',
        ),
        ("#snapshots", 'leave #snapshots out of the location, and read it by inspect("snapshots")'),
        ("#snapshot_id_7", "leave #snapshot_id_7 out of the location, and open it with snapshot_id=7"),
        ("#branch_dev", 'leave #branch_dev out of the location, and open it with ref="dev"'),
        ("#tag_v1", 'leave #tag_v1 out of the location, and open it with ref="v1"'),
        ("#at_timestamp_49916", "leave #at_timestamp_49916 out of the location, and open it as of that time"),
    ],
)
def test_what_connectors_take_as_a_part_of_the_path(end: str, said: str, tmp_path: Path) -> None:
    write_table(tmp_path / "t", pa.table({"id": [1]}), format="iceberg")
    with pytest.raises(TableNotFoundError) as caught:
        open_table(f"{tmp_path / 't'}{end}")
    assert caught.value.hint == said


@pytest.mark.parametrize("end", ["#snapshots", "#files", "#branch_dev"])
def test_a_delta_table_has_no_metadata_tables(end: str, tmp_path: Path) -> None:
    """Whoever asks for one, by whichever door, is told what a Delta table has."""
    write_table(tmp_path / "t", pa.table({"id": [1]}))
    for opened in (open_table, DeltaTable, IcebergTable):
        with pytest.raises(TableNotFoundError) as caught:
            opened(f"{tmp_path / 't'}{end}")
        assert caught.value.hint == (
            f"leave {end} out of the location, and call history() for its versions, or scan().files() for its files: "
            "Delta tables have no metadata tables"
        )


def test_the_command_line(tmp_path: Path) -> None:
    place = tmp_path / "no" / "such"
    for command in (["inspect"], ["head"], ["delete", "true"]):
        ended = call(command[0], place, *command[1:])
        assert ended.exit_code == 3
        assert "the directory does not exist" in ended.stderr
        assert str(place) in ended.stderr
