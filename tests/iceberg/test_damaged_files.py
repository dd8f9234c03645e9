"""Each file that a scan reads beside the data, lost or damaged: the error names the file, and no rows are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptAvroError, CorruptDataFileError, DataFileNotFoundError, DeltabergError
from tests.iceberg.entries import latest_list
from tests.support.iceberg_builder import IcebergBuilder

_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda whole: whole[:-3],
    "halved": lambda whole: whole[: len(whole) // 2],
    "flipped": lambda whole: whole[:-1] + bytes([whole[-1] ^ 0x55]),
    "empty": lambda _: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "another": lambda whole: b"PAR1" + whole,
}


def _with(tmp_path: Path, kind: str) -> tuple[IcebergBuilder, Path]:
    """Make a table, and name one of its files."""
    builder = IcebergBuilder(tmp_path / "t", {"id": "long"})
    file = builder.data([{"id": 1}, {"id": 2}])
    name, _, form = kind.partition(" ")
    builder.commit(file)
    if not form:
        (manifest,) = (builder.root / "metadata").glob("m*.avro")
        return builder, latest_list(builder) if name == "list" else manifest
    if name == "positions":
        deletes = builder.position_deletes([(file, 0)], format=form)
    else:
        deletes = builder.equality_deletes([1], [{"id": 1}], format=form)
    builder.commit(deletes)
    return builder, Path(deletes.path)


_FORMATS = ("parquet", "avro", "orc")
_KINDS = ("list", "manifest", *(f"{deletes} {form}" for deletes in ("positions", "keys") for form in _FORMATS))


@pytest.mark.parametrize("damage", ["gone", *_DAMAGE])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_damaged_file_is_named(tmp_path: Path, kind: str, damage: str) -> None:
    builder, path = _with(tmp_path, kind)
    is_avro, holds_deletes = not kind.endswith(("parquet", "orc")), " " in kind
    error: type[DeltabergError] = CorruptAvroError if is_avro else CorruptDataFileError
    message = "Avro file" if is_avro else "the delete file cannot be decoded"
    if damage == "gone":
        path.unlink()
        error = DataFileNotFoundError
        message = "a delete file is gone" if holds_deletes else "a metadata file of the snapshot is missing"
    else:
        path.write_bytes(_DAMAGE[damage](path.read_bytes()))
    with pytest.raises(error, match=message) as caught:
        open_table(builder.root).scan().to_arrow()
    assert caught.value.context["delete_file" if holds_deletes else "file"] == str(path)
    assert caught.value.context["table"] == str(builder.root)
