"""Words of other libraries: those that mean the same are taken, and errors of others name the argument that does it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, convert_to_delta, create_table, open_table, write_table
from deltaberg.choices import Format
from deltaberg.errors import ArgumentNameError

pytestmark = pytest.mark.one_backend

_ROW = pa.table({"id": [1], "p": ["a"]})
_PLACES = {
    "location": "pass target=",
    "partition_spec": "pass partition_by=",
    "sort_order": "pass sort_by=",
}
#: Calls with a word that means something else here, or nothing, and what the hint has to say.
_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("append", {"data": _ROW, "custom_metadata": {}}, "pass properties="),
    ("overwrite", {"data": _ROW, "condition": "id = 1"}, "pass where="),
    ("overwrite", {"data": _ROW, "overwrite_filter": "id = 1"}, "pass where="),
    ("delete", {"row_filter": "id = 1"}, "pass where="),
    ("compact", {"predicate": "id = 1"}, "pass where="),
    ("reorg", {"row_filter": "id = 1"}, "pass where="),
    ("compact", {"delete_ratio_threshold": 0.3}, "pass max_deleted="),
    ("compact", {"sort_order": "zorder(id, p)"}, "pass sort_by="),
    ("compact", {"max_spill_size": 1}, "leave it out"),
    ("merge", {"source": _ROW, "on": "target.id = source.id", "max_spill_size": 1}, "pass memory="),
    ("scan", {"isolatoin": "x"}, "its arguments are"),
    ("scan", {"snapshot_id": 1}, "leave it out, and open the table with"),
    ("compact", {"min_commit_interval": 1}, "leave it out: there is a commit for each group"),
]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_words_that_mean_the_same_are_taken(tmp_path: Path, format: Format) -> None:
    table: Any = create_table(tmp_path / "t", _ROW.schema, format=format)
    table.append(_ROW)
    assert table.compact(target_size=1 << 20).groups == ()
    assert table.overwrite(_ROW, predicate="id = 1").deleted_rows == 1
    assert table.scan(row_filter="id = 1", selected_fields=("*",)).to_arrow() == _ROW
    assert table.scan(selected_fields=("p",)).to_arrow().column_names == ["p"]
    changes = (
        table.changes(1, derived=True, row_filter="id = 1", selected_fields=["id"])
        if format == "delta"
        else table.appends(None, row_filter="id = 1", selected_fields=["id"])
    )
    assert changes.to_arrow().column("id").unique().to_pylist() == [1]


def test_a_column_may_have_the_name_of_all_columns(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64()), ("*", pa.int64())]))
    assert table.scan(columns=["*"]).to_arrow().column_names == ["*"]


def test_places_by_the_words_of_others(tmp_path: Path) -> None:
    create_table(table_uri=tmp_path / "t", schema=_ROW.schema)
    assert write_table(table_or_uri=tmp_path / "t", data=_ROW, mode="append").inserted_rows == 1
    assert DeltaTable(table_uri=tmp_path / "t").version == 1
    (tmp_path / "files").mkdir()
    pq.write_table(_ROW, tmp_path / "files" / "a.parquet")
    assert convert_to_delta(uri=tmp_path / "files").added_rows == 1
    for call, name in ((DeltaTable, "location"), (convert_to_delta, "target"), (write_table, "target")):
        with pytest.raises(ArgumentNameError, match=f"needs the argument {name}"):
            call()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_hints_name_the_argument_that_does_it(tmp_path: Path, format: Format) -> None:
    """Two names that share a word, such as location and isolation, are no slip of the pen."""
    table: Any = create_table(tmp_path / "t", _ROW.schema, format=format)
    for verb, arguments, hint in _REFUSED:
        with pytest.raises(ArgumentNameError) as caught:
            getattr(table, verb)(**arguments)
        assert (verb, str(caught.value.hint).startswith(hint)) == (verb, True)
    for word, hint in _PLACES.items():
        with pytest.raises(ArgumentNameError) as caught:
            create_table(tmp_path / "new", _ROW.schema, format=format, **{word: "x"})  # type: ignore[call-overload]
        assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        ("delete", (), ("predicate", "condition", "delete_filter")),
        ("update", ({"p": "'z'"},), ("predicate", "condition")),
        ("compact", (), ("target_size", "target_file_size_bytes")),
    ],
)
def test_two_words_of_others_for_one_argument_are_refused(
    verb: str, arguments: tuple[Any, ...], words: tuple[str, ...], format: Format, tmp_path: Path
) -> None:
    """The last one would win, and other rows would go than the first one names."""
    write_table(tmp_path / "t", _ROW, format=format)
    table = open_table(tmp_path / "t")
    for one, other in itertools.permutations(words, 2):
        with pytest.raises(ArgumentNameError, match=f"{other} and {one} are the same"):
            getattr(table, verb)(*arguments, **{one: "id = 1", other: "id = 2"})
    assert table.to_arrow().to_pylist() == _ROW.to_pylist()


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("equal_schemes", "leave it out: s3, s3a and s3n"),
        ("equal_authorities", "prefix_mismatch="),
        ("file_list_view", "location="),
        ("max_concurrent_deletes", "leave it out"),
    ],
)
def test_words_of_the_removal_of_orphans(tmp_path: Path, word: str, wanted: str) -> None:
    table: Any = create_table(tmp_path / "t", _ROW.schema, format="iceberg")
    with pytest.raises(ArgumentNameError) as refused:
        table.remove_orphan_files(**{word: None})
    assert wanted in str(refused.value.hint)
