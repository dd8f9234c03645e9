"""How Parquet files are written, and what commits record, in our words and in those of deltalake."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import deltalake
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import ColumnProperties, CommitProperties, PostCommitHookProperties, Transaction, WriterProperties

from deltaberg import DeltaTable, ParquetOptions, create_table, write_table
from deltaberg import write_table as write_deltalake
from deltaberg.errors import ColumnNotFoundError, DeltabergError, InvalidArgumentError, UnsupportedFeatureError
from tests.support.log_entries import named_actions

_ROWS = pa.table(
    {"id": list(range(1000)), "name": [f"n{number % 7}" for number in range(1000)], "s": [{"x": 1, "y": "a"}] * 1000}
)


def _columns(root: Path) -> tuple[list[int], dict[str, tuple[str, bool]]]:
    """Return the rows of each row group of the newest file, and the codec and use of a dictionary of each column."""
    (add,) = named_actions(root, DeltaTable(root).version, "add")
    metadata = pq.read_metadata(root / add["path"])
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [groups[0].column(number) for number in range(metadata.num_columns)]
    return [group.num_rows for group in groups], {
        column.path_in_schema: (column.compression, column.has_dictionary_page) for column in columns
    }


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_by_column(tmp_path: Path, mapping: str) -> None:
    options = ParquetOptions({"": "gzip", "name": "zstd", "s": "none"}, dictionary=["name", "s.y"], row_group_rows=400)
    table = create_table(tmp_path, _ROWS.schema, properties={"delta.columnMapping.mode": mapping})
    table.append(_ROWS, writer_properties=options)
    groups, found = _columns(tmp_path)
    assert groups == [400, 400, 200]
    # Under column mapping the files have other names, in the same order.
    assert list(found.values()) == [("GZIP", False), ("ZSTD", True), ("UNCOMPRESSED", False), ("UNCOMPRESSED", True)]
    table.overwrite(_ROWS, writer_properties=options, compression="brotli")
    assert {codec for codec, _ in _columns(tmp_path)[1].values()} == {"BROTLI"}
    assert table.scan().to_arrow().sort_by("id").equals(_ROWS)
    with pytest.raises(ColumnNotFoundError, match="no column 'nope'"):
        table.append(_ROWS, writer_properties=ParquetOptions(dictionary=["nope"]))


def test_row_groups_by_bytes(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array(range(200_000), pa.int64())})
    options = ParquetOptions(compression="none", dictionary=False, row_group_size=200_000)
    write_table(tmp_path / "a", rows, writer_properties=options, target_file_size=1 << 30)
    sizes, _ = _columns(tmp_path / "a")
    assert len(sizes) > 4
    # The first one shows how well the rows compress.
    assert all(8 * size < 300_000 for size in sizes[1:])
    write_table(
        tmp_path / "p",
        rows,
        configuration={"deltaberg.parquet.rowGroupSize": "200000", "delta.parquet.compression.codec": "none"},
    )
    assert len(_columns(tmp_path / "p")[0]) > 4
    with pytest.raises(InvalidArgumentError, match="rowGroupSize"):
        write_table(tmp_path / "bad", rows, configuration={"deltaberg.parquet.rowGroupSize": "large"})


def test_writer_properties_of_deltalake(tmp_path: Path) -> None:
    properties = WriterProperties(
        compression="ZSTD",
        compression_level=5,
        max_row_group_size=300,
        data_page_size_limit=4096,
        default_column_properties=ColumnProperties(dictionary_enabled=False),
        column_properties={"name": ColumnProperties(dictionary_enabled=True)},
    )
    write_deltalake(tmp_path / "t", _ROWS, writer_properties=properties)
    groups, found = _columns(tmp_path / "t")
    assert groups == [300, 300, 300, 100]
    assert {codec for codec, _ in found.values()} == {"ZSTD"}
    assert [name for name, (_, dictionary) in found.items() if dictionary] == ["name"]
    write_deltalake(tmp_path / "t", _ROWS, mode="append", writer_properties=WriterProperties())
    assert _columns(tmp_path / "t")[1]["id"][0] == "SNAPPY"


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"compression": "snappy"}, InvalidArgumentError, "writer_properties is of the type dict"),
        (WriterProperties(statistics_truncate_length=5), UnsupportedFeatureError, "statistics_truncate_length"),
        (
            WriterProperties(default_column_properties=ColumnProperties(encoding="PLAIN")),
            UnsupportedFeatureError,
            "the option encoding of deltalake's WriterProperties",
        ),
        (WriterProperties(max_row_group_size=-1), InvalidArgumentError, "row_group_rows is -1"),
    ],
)
def test_properties_that_are_refused(
    tmp_path: Path, properties: Any, error: type[DeltabergError], message: str
) -> None:
    with pytest.raises(error, match=message):
        write_table(tmp_path / "t", _ROWS, writer_properties=properties)
    assert not list(tmp_path.rglob("*.parquet"))


def test_commit_properties_of_deltalake(tmp_path: Path) -> None:
    properties = CommitProperties(
        custom_metadata={"job": {"id": 7}, "userMetadata": "nightly"},
        max_commit_retries=3,
        app_transactions=[Transaction("app", 1), Transaction("other", 5)],
    )
    modes: list[Any] = ["error", "append", "overwrite"]
    for version, mode in enumerate(modes):
        write_deltalake(tmp_path, _ROWS, mode=mode, commit_properties=properties)
        info = named_actions(tmp_path, version, "commitInfo")[0]
        assert (info["job"], info["userMetadata"]) == ({"id": 7}, "nightly")
        assert info["operation"] == "WRITE"
        peer = deltalake.DeltaTable(tmp_path)
        assert (peer.transaction_version("app"), peer.transaction_version("other")) == (1, 5)
        assert peer.history(1)[0]["job"] == {"id": 7}
    for wrong, error in (
        (CommitProperties(custom_metadata={"txnId": "x"}), "txnId is recorded by the library itself"),
        (CommitProperties(custom_metadata={"x": {1}}), "the custom metadata is not JSON"),
        # delta-spark has types of its own for these.
        (CommitProperties(custom_metadata={"version": "1.4.0"}), "version is"),
        (CommitProperties(custom_metadata={"job": "nightly"}), "job is not an object"),
        (CommitProperties(custom_metadata={"userName": 5}), "userName is not text"),
        (CommitProperties(max_commit_retries=-1), "retries must be"),
        (CommitProperties(app_transactions=cast(Any, 5)), "app_transactions must be a list, not 5"),
        (CommitProperties(app_transactions=cast(Any, [5])), "the application must be text"),
        (cast(Any, object()), "commit_properties is of the type object"),
    ):
        with pytest.raises(InvalidArgumentError, match=error):
            write_deltalake(tmp_path, _ROWS, mode="append", commit_properties=wrong)
    write_deltalake(tmp_path, _ROWS, mode="append", post_commithook_properties=PostCommitHookProperties())
    with pytest.raises(UnsupportedFeatureError, match="checkpointInterval"):
        write_deltalake(
            tmp_path, _ROWS, mode="append", post_commithook_properties=PostCommitHookProperties(create_checkpoint=False)
        )
    assert DeltaTable(tmp_path).version == 3


def test_objects_of_deltalake_hold_what_their_readers_take(tmp_path: Path) -> None:
    """Numbers and flags of numpy, and any iterable; what is wrong is refused for its own reason."""
    held: Any = (Transaction("app", number) for number in (4,))
    write_deltalake(
        tmp_path,
        _ROWS,
        commit_properties=CommitProperties(max_commit_retries=cast(Any, np.int64(3)), app_transactions=held),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=cast(Any, np.bool_(True))),
    )
    write_deltalake(
        tmp_path,
        _ROWS,
        mode="append",
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=cast(Any, 1)),
    )
    assert deltalake.DeltaTable(tmp_path).transaction_version("app") == 4
    pairs: Any = CommitProperties(custom_metadata=cast(Any, [("a", "b")]))
    with pytest.raises(InvalidArgumentError, match="properties is not a mapping"):
        write_deltalake(tmp_path, _ROWS, mode="append", commit_properties=pairs)
    assert DeltaTable(tmp_path).version == 1


def test_what_users_of_deltalake_write(tmp_path: Path) -> None:
    """The calls that its documentation shows, with the import changed."""
    path = str(tmp_path / "people")
    frame = pd.DataFrame({"num": [1, 2, 3], "letter": ["a", "b", "c"]})
    write_deltalake(path, frame)
    write_deltalake(path, pd.DataFrame({"num": [8, 9], "letter": ["dd", "ee"]}), mode="append")
    write_deltalake(path, pd.DataFrame({"num": [11, 22], "letter": ["aa", "bb"]}), mode="overwrite")
    assert DeltaTable(path).scan().to_pandas()["num"].tolist() == [11, 22]
    assert DeltaTable(path, version=1).scan().count() == 5
    write_deltalake(path, frame, mode="ignore")
    table = DeltaTable(path)
    write_deltalake(
        table, pd.DataFrame({"num": [1], "letter": ["x"], "new": [True]}), mode="append", schema_mode="merge"
    )
    assert (table.version, table.schema.names) == (3, ["num", "letter", "new"])
    write_deltalake(path, pd.DataFrame({"other": [1.5]}), mode="overwrite", schema_mode="overwrite")
    parts = str(tmp_path / "parts")
    write_deltalake(parts, pa.table({"x": [1, 2, 3], "y": ["a", "b", "b"]}), partition_by=["y"], name="parts")
    write_deltalake(parts, pa.table({"x": [100], "y": ["b"]}), mode="overwrite", predicate="y = 'b'")
    assert sorted(DeltaTable(parts).scan().to_arrow()["x"].to_pylist()) == [1, 100]
    batches = pa.table({"x": [7], "y": ["c"]}).to_batches()
    write_deltalake(parts, pa.RecordBatchReader.from_batches(batches[0].schema, batches), mode="append")
    write_deltalake(parts, batches, mode="append", target_file_size=10_000_000)
    write_deltalake(tmp_path / "only", batches, mode="append", configuration={"delta.appendOnly": "true"})
    assert pa.table(deltalake.DeltaTable(parts).to_pyarrow_table()).num_rows == 4


def test_delta_tables_have_no_order(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match="sort_by applies only to Iceberg tables"):
        create_table(tmp_path, _ROWS.schema, sort_by="id")
