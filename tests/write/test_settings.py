"""Properties whose values a verb goes by are refused when they are set, through every door, and not by that verb."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table, load_catalog, open_table, write_table
from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError, SchemaError, UnsupportedFeatureError

_ROWS = pa.table({"id": [1, 2]})
_WRONG = {
    "iceberg": {
        "commit.manifest.min-count-to-merge": "0",
        "commit.manifest.target-size-bytes": "8mb",
        "commit.retry.max-wait-ms": "1s",
        "commit.retry.min-wait-ms": "-1",
        "commit.retry.num-retries": "many",
        "commit.retry.total-timeout-ms": "1.5",
        "encryption.key-id": "k",
        "gc.enabled": "maybe",
        "history.expire.max-ref-age-ms": "0",
        "history.expire.max-snapshot-age-ms": "5 days",
        "history.expire.min-snapshots-to-keep": "-1",
        "schema.name-mapping.default": "{",
        "write.avro.compression-codec": "lzo",
        "write.avro.compression-level": "12",
        "write.data.path": "relative",
        "write.delete.format.default": "csv",
        "write.delete.granularity": "row",
        "write.delete.isolation-level": "none",
        "write.delete.mode": "in-place",
        "write.delete.parquet.compression-codec": "lzo",
        "write.delete.target-file-size-bytes": "0",
        "write.distribution-mode": "sorted",
        "write.folder-storage.path": "relative",
        "write.format.default": "csv",
        "write.location-provider.impl": "a.b",
        "write.merge.isolation-level": "none",
        "write.merge.mode": "in-place",
        "write.metadata.compression-codec": "zstd",
        "write.metadata.path": "relative",
        "write.metadata.delete-after-commit.enabled": "1",
        "write.metadata.previous-versions-max": "few",
        "write.orc.compression-codec": "brotli",
        "write.orc.compression-strategy": "size",
        "write.orc.stripe-size-bytes": "64mb",
        "write.parquet.bloom-filter-max-bytes": "-1",
        "write.parquet.compression-codec": "lzo",
        "write.parquet.compression-level": "best",
        "write.parquet.dict-size-bytes": "x",
        "write.parquet.page-row-limit": "0",
        "write.parquet.page-size-bytes": "1mb",
        "write.parquet.page-version": "v3",
        "write.parquet.row-group-limit": "0",
        "write.parquet.row-group-size-bytes": "128mb",
        "write.summary.partition-limit": "few",
        "write.target-file-size-bytes": "512mb",
        "write.update.isolation-level": "none",
        "write.update.mode": "in-place",
    },
    "delta": {
        "delta.checkpointInterval": "0",
        "delta.checkpointPolicy": "v3",
        "delta.dataSkippingNumIndexedCols": "all",
        "delta.dataSkippingStatsColumns": "nope",
        "delta.checkpointRetentionDuration": "interval 1 month",
        "delta.deletedFileRetentionDuration": "a week",
        "delta.dropFeatureTruncateHistory.retentionDuration": "interval 999999999999 weeks",
        "delta.isolationLevel": "none",
        "delta.logRetentionDuration": "7",
        "delta.parquet.compression.codec": "lzo",
        "delta.randomPrefixLength": "0",
        "delta.setTransactionRetentionDuration": "7",
        "delta.targetFileSize": "large",
        "deltaberg.keepVersions": "all",
        "deltaberg.logCompactionInterval": "1",
        "deltaberg.parquet.rowGroupSize": "64mb",
    },
}
#: What no verb parses, or where any value has a meaning.
_FREE = {
    "iceberg": {
        "owner": "ada",
        "read.split.target-size": "x",
        "write.metadata.metrics.column.id": "some",
        "write.object-storage.enabled": "maybe",
    },
    "delta": {"owner": "ada", "spark.sql.x": "1"},
}


def _refused(name: str, value: str) -> AbstractContextManager[Any]:
    """Expect an error that names the property, or what it asks for."""
    if value == "nope":
        return pytest.raises(ColumnNotFoundError, match="there is no column 'nope'")
    named = "encrypted" if name.startswith("encryption.") else re.escape(name)
    return pytest.raises((InvalidArgumentError, UnsupportedFeatureError), match=named)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_what_a_verb_would_refuse_is_not_set(tmp_path: Path, table_format: Any) -> None:
    table = create_table(tmp_path / "t", _ROWS.schema, format=table_format)
    for number, (name, value) in enumerate(_WRONG[table_format].items()):
        with _refused(name, value):
            table.alter().set({name: value}).commit()
        with _refused(name, value):
            create_table(tmp_path / "new", _ROWS.schema, format=table_format, properties={name: value})
        # The other doors lead to these two.
        if number % 8:
            continue
        with _refused(name, value), table.transaction() as transaction:
            transaction.alter().set({name: value})
        with _refused(name, value):
            create_table(
                tmp_path / "t", _ROWS.schema, format=table_format, properties={name: value}, if_exists="replace"
            )
        with _refused(name, value):
            write_table(tmp_path / "new", _ROWS, format=table_format, configuration={name: value})
        assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file()], name
    assert not set(_WRONG[table_format]) & set(open_table(tmp_path / "t").properties)
    table.refresh().alter().set(_FREE[table_format]).commit()
    table.append(_ROWS)
    table.delete("id = 1")
    assert table.scan().count() == 1


def test_what_a_verb_would_refuse_is_not_set_in_a_catalog(tmp_path: Path) -> None:
    catalog: Any = load_catalog("shop", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"{tmp_path}/w")
    catalog.create_namespace("s")
    table = catalog.create_table("s.t", _ROWS.schema)
    for name, value in list(_WRONG["iceberg"].items())[::8]:
        with _refused(name, value):
            catalog.create_table("s.new", _ROWS.schema, properties={name: value})
        with _refused(name, value):
            table.alter().set({name: value})
    assert [name for _, name in catalog.list_tables("s")] == ["t"]


def test_values_that_are_wrong_together(tmp_path: Path) -> None:
    """A value that is valid by itself is refused if another property, which stays, makes it wrong."""
    codec, level = "write.parquet.compression-codec", "write.parquet.compression-level"
    table = create_table(tmp_path / "t", _ROWS.schema, format="iceberg", properties={codec: "zstd", level: "20"})
    with pytest.raises(InvalidArgumentError, match="the levels of gzip"):
        table.alter().set({codec: "gzip"})
    table.alter().set({codec: "gzip", level: "9"}).commit()
    manifests = {"write.avro.compression-codec": "zstd", "write.avro.compression-level": "12"}
    table.alter().set(manifests).commit()
    with pytest.raises(InvalidArgumentError, match="the levels of gzip"):
        table.alter().unset("write.avro.compression-codec")
    table.alter().unset(*manifests).commit()
    table.append(_ROWS)
    assert table.scan().count() == 2


def test_what_others_left_wrong_can_be_mended_one_by_one(tmp_path: Path) -> None:
    create_table(tmp_path / "t", _ROWS.schema, format="iceberg")
    (file,) = (tmp_path / "t/metadata").glob("v1.*")
    wrong = {"write.parquet.page-version": "v9", "write.parquet.row-group-limit": "0", "commit.retry.num-retries": "x"}
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "properties": wrong}), "utf-8")
    right = {"commit.retry.num-retries": "4", "write.parquet.row-group-limit": "9", "write.parquet.page-version": "v1"}
    for name, value in right.items():
        with pytest.raises(InvalidArgumentError, match=name):
            open_table(tmp_path / "t").alter().set({name: f"{wrong[name]}!"}).commit()
        open_table(tmp_path / "t").alter().set({name: value}).commit()
    table: Any = open_table(tmp_path / "t")
    table.append(_ROWS)
    assert table.properties == right


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_what_others_left_wrong_hinders_no_other_change(tmp_path: Path, table_format: Any) -> None:
    """A clean-up that goes by the property names it; what it would keep stays meanwhile."""
    wrong, clean_ups = _RETENTION[table_format]
    create_table(tmp_path / "t", _ROWS.schema, format=table_format)
    _record(tmp_path / "t", wrong)
    table: Any = open_table(tmp_path / "t")
    for number in range(12):
        table.append(_ROWS)
        table.alter().set({"owner": str(number)}).commit()
    table.delete("id = 1")
    assert open_table(tmp_path / "t").scan().count() == 12
    for clean_up in clean_ups:
        with pytest.raises((InvalidArgumentError, SchemaError), match=r"Retention|history\.expire|gc\.enabled"):
            getattr(table.refresh(), clean_up)(dry_run=False)
    if table_format == "iceberg":
        assert len(list((tmp_path / "t/metadata").glob("*.metadata.json"))) == 26
    table.alter().unset(*wrong).commit()
    for clean_up in clean_ups:
        getattr(table, clean_up)(dry_run=False)
    assert open_table(tmp_path / "t").scan().count() == 12


#: What another engine may leave, and what goes by it.
_RETENTION: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "iceberg": (
        {
            "gc.enabled": "yes",
            "history.expire.max-ref-age-ms": "never",
            "history.expire.max-snapshot-age-ms": "5d",
            "history.expire.min-snapshots-to-keep": "0",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "few",
        },
        ("expire_snapshots", "remove_orphan_files"),
    ),
    "delta": (
        {
            "delta.checkpointRetentionDuration": "few",
            "delta.deletedFileRetentionDuration": "interval 999999999999 weeks",
            "delta.logRetentionDuration": "interval 2 months",
            "delta.setTransactionRetentionDuration": "-1",
        },
        ("vacuum", "cleanup_metadata"),
    ),
}


def _record(root: Path, properties: dict[str, str]) -> None:
    """Record properties in the first version of a table, as others do that check nothing."""
    for file in (*root.glob("metadata/v1.*"), *root.glob("_delta_log/*.json")):
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for line in lines:
            if "properties" in line:
                line["properties"] |= properties
            line.get("metaData", {"configuration": {}})["configuration"].update(properties)
        file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
