"""Other engines read a table by a checkpoint that the package wrote, with the log before it deleted, and go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg import DeltaTable, open_table
from deltaberg.delta.after_commit.checkpoints import write_checkpoint
from deltaberg.delta.checkpoint.layout import CheckpointLayout
from tests.interop.judged import few, same
from tests.support.delta_builder import DeltaBuilder
from tests.support.judge import Judge
from tests.support.rows import ids_of
from tests.support.written_checkpoints import forget_before

_LAYOUTS = {
    "classic": CheckpointLayout(),
    "multipart": CheckpointLayout(naming="multipart", parts=3),
    "classic-v2": CheckpointLayout(spec=2, files_per_sidecar=4),
    "uuid-parquet": CheckpointLayout(spec=2, naming="uuid"),
    "uuid-parquet-sidecars": CheckpointLayout(spec=2, naming="uuid", files_per_sidecar=4),
    "uuid-json": CheckpointLayout(spec=2, naming="uuid", format="json"),
    "uuid-json-sidecars": CheckpointLayout(spec=2, naming="uuid", format="json", files_per_sidecar=4, embed=True),
}
_every_layout = pytest.mark.parametrize("layout", _LAYOUTS.values(), ids=_LAYOUTS)
_BOTH = {"delta.checkpoint.writeStatsAsStruct": "true"}
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())]
)


def _build(builder: DeltaBuilder, layout: CheckpointLayout, *features: str) -> None:
    """Build a partitioned table with a tombstone, and leave only its checkpoint and the newest commit."""
    adds = []
    for number in range(12):
        rows = pa.table(
            {
                "id": [number, number + 100],
                "name": [f"a{number}", f'z"\\{number}é'],
                "at": pa.array([number * 86_400_000_000, None], pa.timestamp("us", "UTC")),
            }
        )
        day = None if number == 5 else f"2024-01-{number + 1:02d}"
        adds.append(builder.add(rows, partition={"day": day}, stats="full", path=f"day={day}/f{number}.parquet"))
    listed = [*features, *(["v2Checkpoint"] if layout.spec > 1 else [])]
    protocol = builder.features(*listed) if listed else None
    builder.create(_SCHEMA, *adds[:6], partition_by=["day"], configuration=_BOTH, protocol=protocol)
    # Our checkpoints also hold what the protocol does not know.
    metadata = json.loads(DeltaTable(builder.root).metadata.action.to_json())
    metadata["metaData"] |= {"later": {"weights": [1.5, None], "deep": {"flag": True}}, "note": "x"}
    builder.commit(metadata, *adds[6:], builder.remove(adds[0]), {"txn": {"appId": "a", "version": 3}})
    write_checkpoint(DeltaTable(builder.root)._snapshot, layout)
    forget_before(builder.log, 1)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.parametrize("layout", few(_LAYOUTS, "classic", "uuid-json-sidecars"))
def test_delta_spark(judge: Judge, builder: DeltaBuilder, layout: CheckpointLayout) -> None:
    _build(builder, layout, "deletionVectors")
    path = builder.root
    for condition in (
        "true",
        "id = 7",
        "name >= 'a9' and name < 'b'",
        "day = '2024-01-03'",
        "day is null",
        "at is null",
    ):
        rows = open_table(path, "delta").scan(filter=condition).to_arrow()
        same(rows, judge.sql(f"SELECT * FROM delta.`{path}` WHERE {condition}"))
        assert len(rows)
    judge.sql(f"INSERT INTO delta.`{path}` VALUES (999, 'new', NULL, DATE '2024-02-01')")
    judge.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    wanted = sorted({*range(1, 12), *range(101, 112), 999} - {3})
    assert ids_of(open_table(path, "delta")) == wanted
    assert open_table(path, "delta").version == 3


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.judges
@pytest.mark.one_backend
@pytest.mark.timeout(600)
def test_sidecars_of_the_usual_size_in_delta_spark(judge: Judge, builder: DeltaBuilder) -> None:
    """It counts the rows by what all sidecars of a checkpoint say of the files, and opens none of these."""
    policy = {"delta.checkpointPolicy": "v2"}
    builder.create(_SCHEMA, protocol=builder.features("v2Checkpoint"), configuration=policy)
    file = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True, "stats": '{"numRecords":3}'}
    builder.commit_text("\n".join(json.dumps({"add": {"path": f"{n}.parquet", **file}}) for n in range(120_000)))
    builder.commit_text(json.dumps({"commitInfo": {"operation": "TEST", "timestamp": 0}}))
    DeltaTable(builder.root).checkpoint()
    assert len(list((builder.log / "_sidecars").iterdir())) == 3
    forget_before(builder.log, 2)
    assert judge.sql(f"SELECT count(*) AS n FROM delta.`{builder.root}`")["n"].to_pylist() == [360_000]


@_every_layout
def test_deltalake(builder: DeltaBuilder, layout: CheckpointLayout) -> None:
    _build(builder, layout)
    peer = deltalake.DeltaTable(builder.root)
    assert peer.version() == 1
    found = deltalake.QueryBuilder().register("t", peer).execute("SELECT id, name, at, day FROM t")
    rows = open_table(builder.root).scan().to_arrow()
    assert rows.num_rows == 22
    same(rows, pa.table(found).cast(rows.schema))
    assert peer.transaction_version("a") == 3
    actions = pa.table(peer.get_add_actions(flatten=True))
    assert sorted(actions["max.id"].to_pylist()) == list(range(101, 112))


#: Tables of every feature whose checkpoint can be made.
_SAMPLE = (
    "golden--basic-with-inserts-deletes-checkpoint",
    "golden--data-reader-partition-values",
    "golden--data-skipping-basic-stats-all-types-checkpoint",
    "golden--data-skipping-basic-stats-all-types-columnmapping-name",
    "golden--dv-partitioned-with-checkpoint",
    "golden--dv-with-columnmapping",
    "golden--log-replay-special-characters",
    "golden--multi-part-checkpoint",
    "golden--table-with-columnmapping-mode-id",
    "golden--type-widening",
    "golden--v2-checkpoint-parquet",
)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.one_backend
@pytest.mark.timeout(600)
@pytest.mark.judges
@pytest.mark.parametrize("typed", ["true", "false"])
def test_tables_of_other_engines(judge: Judge, conformance: Path, tmp_path: Path, typed: str) -> None:
    index: dict[str, Any] = json.loads((conformance / "index.json").read_text(encoding="utf-8"))
    for name in _SAMPLE:
        copy = tmp_path / name
        shutil.copytree(conformance / index[name]["dir"], copy, copy_function=shutil.copyfile)
        table = DeltaTable(copy)
        changed = table.metadata.with_properties({"delta.checkpoint.writeStatsAsStruct": typed}).action.to_json()
        (copy / "_delta_log" / f"{table.version + 1:020d}.json").write_text(f"{changed}\n", encoding="utf-8")
        expected = judge.sql(f"SELECT * FROM delta.`{copy}`")
        moved = tmp_path / f"{name}-checkpointed"
        DeltaTable(copy).checkpoint()
        # Under another path delta-spark has nothing in its caches.
        copy.rename(moved)
        forget_before(moved / "_delta_log", table.version + 1)
        same(judge.sql(f"SELECT * FROM delta.`{moved}`"), expected)
        same(open_table(moved).scan().to_arrow(), expected)
