"""Compaction: which files are put together, and how large the new ones are."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import DeltaTable, MaintenancePolicy, ParquetOptions, create_table, open_table
from deltaberg.errors import ArgumentNameError, DataFileNotFoundError, InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table.maintain import compact
from deltaberg.table.maintain.packing import PackedFile, Packing, pack_files
from tests.support.command_line import json_lines
from tests.support.delta_builder import DeltaBuilder
from tests.support.log_entries import named_actions
from tests.support.rows import ID, ids, ids_of


def test_partitions_stay_apart(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("p", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    table = create_table(tmp_path, columns, partition_by=["p", "at"])
    for number in range(3):
        rows = [{"id": number, "p": part, "at": at} for part in ("a/ü %41", None) for at in (0, 123_456)]
        table.append(pa.Table.from_pylist(rows, columns))
    before = sorted(table.scan().to_arrow().to_pylist(), key=repr)
    values = {json.dumps(dict(one)) for one in table.live_files["partitionValues"].to_pylist()}
    done = table.compact("p IS NULL")
    assert (done.removed_files, done.added_files) == (6, 2)
    (info,) = named_actions(tmp_path, table.version, "commitInfo")
    assert info["operationParameters"]["predicate"] == '["p IS NULL"]'
    done = table.compact()
    assert (done.removed_files, done.added_files) == (6, 2)
    assert {json.dumps(dict(one)) for one in table.live_files["partitionValues"].to_pylist()} == values
    assert sorted(table.scan().to_arrow().to_pylist(), key=repr) == before


@pytest.mark.req("DL-OPT-01")
@pytest.mark.parametrize("vector", [True, False])
def test_a_large_file_whose_rows_nobody_counted(builder: DeltaBuilder, vector: bool) -> None:
    """It is written anew if it has a deletion vector, whatever share of deleted rows may stay."""
    add = builder.add(ids(*range(40)), stats=None, vector=builder.vector([5, 6]) if vector else None)
    builder.create(ID, add, protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    before = ids_of(table)
    assert table.compact(target_file_size=add["add"]["size"], max_deleted=1).removed_files == int(vector)
    assert ids_of(table) == before
    assert table.compact(target_file_size=add["add"]["size"], max_deleted=1).removed_files == 0


@pytest.mark.req("DL-OPT-01")
def test_partition_values_that_others_spell_otherwise(builder: DeltaBuilder) -> None:
    """They are one partition, whose files are put together."""
    adds = [builder.add(ids(number), partition={"p": text}) for number, text in enumerate(("1", "01", "+1", "2"))]
    builder.create(pa.schema([*ID, ("p", pa.int32())]), *adds, partition_by=["p"])
    table = DeltaTable(builder.root)
    done = table.compact()
    assert (done.removed_files, done.added_files) == (3, 1)
    (add,) = named_actions(builder.root, table.version, "add")
    assert add["partitionValues"] == {"p": "1"}
    assert sorted((row["p"], row["id"]) for row in table.scan().to_arrow().to_pylist()) == [
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 3),
    ]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_files_of_every_size(tmp_path: Path, format: Literal["delta", "iceberg"]) -> None:
    table: Any = create_table(tmp_path, ID, format=format)
    table.append(ids(1, 2))
    assert table.compact(min_file_size=0).groups == ()
    done = table.compact(min_file_size=0, rewrite_all=True)
    assert (done.removed_files, done.added_files) == (1, 1)
    assert table.compact("id > 5", rewrite_all=True).groups == ()
    with pytest.raises(InvalidArgumentError, match="rewrite_all must be True or False, not 'yes'"):
        table.compact(rewrite_all="yes")
    # The words of iceberg-spark.
    assert table.compact(min_file_size_bytes=0, min_input_files=5).groups == ()
    with pytest.raises(ArgumentNameError, match="output_spec_id"):
        table.compact(output_spec_id=0)
    assert sorted(ids_of(table)) == [1, 2]


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_the_share_that_position_delete_files_delete(tmp_path: Path, granularity: str) -> None:
    """It is known where a delete file is about one data file, and else the file is rewritten whatever may stay."""
    properties = {"format-version": "2", "write.delete.granularity": granularity}
    table: Any = create_table(tmp_path, ID, format="iceberg", properties=properties)
    for first in (0, 40):
        table.append(ids(*range(first, first + 40)))
    table.delete("id IN (3, 4, 5, 50)", strategy="merge-on-read")
    expected = {"file": {0.1: 0, 0.07: 1, 0.02: 2}, "partition": {0.1: 2}}[granularity]
    for share, files in expected.items():
        assert table.compact(min_file_size=0, max_deleted=share, dry_run=True).removed_files == files
    table.delete("id = 6", strategy="merge-on-read")
    assert table.compact(min_file_size=0, max_deleted=0.09).removed_files == (1 if granularity == "file" else 2)
    assert sorted(ids_of(table)) == sorted({*range(80)} - {3, 4, 5, 6, 50})


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_bounds_of_sizes(tmp_path: Path, format: Literal["delta", "iceberg"]) -> None:
    """Large enough files stay; too large ones are divided into files of the target size, which stay from then on."""
    table: Any = create_table(tmp_path, ID, format=format)
    values = pa.table({"id": pa.array(range(60_000), pa.int64())})
    for part in (values.slice(0, 59_000), values.slice(59_000, 500), values.slice(59_500)):
        table.append(part, compression="none")
    sizes = sorted(table.scan().files()["file_size_in_bytes"].to_pylist())
    assert table.compact(min_file_size=sizes[0]).removed_files == 0
    target = sizes[-1] // 4
    assert (
        table.compact(min_file_size=sizes[0], target_file_size=target, max_file_size=2 * sizes[-1]).removed_files == 0
    )
    bounds = {"target_file_size": target, "max_file_size": 2 * target, "min_file_size": 0, "compression": "none"}
    done = table.compact(**bounds)
    assert (done.removed_files, done.added_files) == (1, 5)
    assert max(table.scan().files()["file_size_in_bytes"].to_pylist()) < 1.2 * target
    assert ids_of(table) == list(range(60_000))
    assert table.compact(**bounds).removed_files == 0
    for wrong in ({"max_file_size": target}, {"min_file_size": target + 1}):
        with pytest.raises(InvalidArgumentError, match=f"{min(wrong)} is .* bytes, but new files have"):
            table.compact(**bounds | wrong)


@pytest.mark.parametrize(("format", "share", "files"), [("iceberg", 2, 3), ("iceberg", 1.5, 0), ("delta", 2, 0)])
def test_too_large_files_of_iceberg_are_divided(
    tmp_path: Path, format: Literal["delta", "iceberg"], share: float, files: int
) -> None:
    """They are larger than 1.8 times the target size; a purge leaves them as they are."""
    table: Any = create_table(tmp_path, ID, format=format)
    table.append(ids(*range(20_000)), compression="none")
    (size,) = table.scan().files()["file_size_in_bytes"].to_pylist()
    bounds = {"target_file_size": int(size / share), "compression": "none"}
    assert table.reorg(**bounds).removed_files == 0
    done = table.compact(**bounds)
    assert (done.removed_files, done.added_files) == (int(files > 0), files)
    assert table.compact(**bounds).removed_files == 0
    assert ids_of(table) == list(range(20_000))


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_dry_run_says_what_a_compaction_does(tmp_path: Path, format: Literal["delta", "iceberg"]) -> None:
    table: Any = create_table(tmp_path, pa.schema([*ID, ("p", pa.int64())]), format=format, partition_by="p")
    for number in range(3):
        table.append(pa.table({"id": [number, number], "p": [0, 1]}))
    known, state = sorted(tmp_path.rglob("*")), table.scan().files()
    planned = table.compact(group_size=1, dry_run=True)
    assert (sorted(tmp_path.rglob("*")), table.refresh().scan().files()) == (known, state)
    assert (planned.dry_run, planned.commits, planned.conflicts, len(planned.groups)) == (True, [], [], 2)
    assert planned.copied_rows is None
    done = table.compact(group_size=1)
    for name in ("removed_files", "added_files", "removed_bytes"):
        assert getattr(planned, name) == getattr(done, name)
    assert 0 < planned.added_bytes <= planned.removed_bytes
    assert repr(planned) == "CompactResult(would put 6 files into 2, 2 commits)"
    assert repr(table.compact(dry_run=True)) == "CompactResult(would put 0 files into 0, 0 commits)"


@pytest.mark.parametrize("order", [{}, {"sort_by": "id"}])
def test_a_dry_run_expects_no_file_of_deleted_rows(builder: DeltaBuilder, order: dict[str, Any]) -> None:
    """Where all rows of a partition are deleted, its files become none."""
    adds = [
        builder.add(ids(number, number + 10), stats="full", vector=builder.vector(gone), partition={"p": part})
        for number, part, gone in ((0, "0", [0, 1]), (1, "0", [0, 1]), (2, "1", [0]), (3, "1", [1]))
    ]
    columns = pa.schema([*ID, ("p", pa.int64())])
    builder.create(columns, *adds, partition_by=["p"], protocol=builder.features("deletionVectors"))
    table = DeltaTable(builder.root)
    planned, done = table.compact(dry_run=True, **order), table.compact(**order)
    assert (planned.removed_files, planned.added_files) == (done.removed_files, done.added_files) == (4, 1)


@pytest.mark.parametrize(
    ("format", "name"), [("delta", "delta.targetFileSize"), ("iceberg", "write.target-file-size-bytes")]
)
def test_the_target_size_of_the_table(tmp_path: Path, format: Literal["delta", "iceberg"], name: str) -> None:
    table: Any = create_table(tmp_path, ID, format=format)
    for number in range(6):
        table.append(ids(number))
    size = table.scan().files()["file_size_in_bytes"][0].as_py()
    table.alter().set({name: str(2 * size)}).commit()
    assert (table.compact().added_files, table.scan().files().num_rows) == (3, 3)


def test_packing() -> None:
    def packed(*sizes: int, **options: Any) -> list[list[int]]:
        files = [PackedFile(row, "p", size) for row, size in enumerate(sizes)]
        return [[file.row for file in files] for files in pack_files(files, Packing(100, **options))]

    assert packed(10, 10, 75, 10, 200) == [[0, 1, 3]]
    assert packed(60, 60, 40) == [[1, 2]]
    assert packed(10, 10, min_files=3) == []
    assert packed(*[10] * 25) == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    deleted = [PackedFile(0, "p", 500, 0.5), PackedFile(1, "p", 10, 0.0), PackedFile(2, "p", 500, 0.05)]
    assert pack_files(deleted, Packing(100)) == [[deleted[0]]]
    assert packed(40, 30, min_files=5) == [[0, 1]]
    assert packed(60, 30, min_files=5) == []


@pytest.mark.parametrize("min_files", [2, 5, 20])
def test_files_after_maintenance_are_few_and_stay(rng: random.Random, min_files: int) -> None:
    """By size alone: twice as many as there must be, and those that wait for others. New files are younger, or not."""
    target = 1000
    packing = Packing(target, min_files, large=0.5)
    for _ in range(300):
        spread = rng.choice([(0, 50), (0, 400), (200, 749), (0, 1200), (333, 340), (499, 501)])
        files = [
            PackedFile(row, None, rng.randint(*spread), rng.choice([0, 0, 0.04, 0.3, 0.9]))
            for row in range(rng.choice([1, 3, 10, 100]))
        ]
        bins = pack_files(files, packing)
        gone = {file.row for one in bins for file in one}
        assert len(gone) == sum(map(len, bins))
        assert all(len(one) == 1 or sum(file.kept for file in one) <= target for one in bins)
        new = [PackedFile(1000 + row, None, sum(file.kept for file in one)) for row, one in enumerate(bins)]
        after = [*(file for file in files if file.row not in gone), *new]
        assert len(after) < 2 * -(-sum(file.size for file in after) // target) + min_files
        for _ in range(3):
            assert pack_files(after, packing) == []
            rng.shuffle(after)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_maintenance_leaves_few_files_of_every_partition(tmp_path: Path, format: Literal["delta", "iceberg"]) -> None:
    """Files of a fifth to three quarters of the target are put together, and those of more than half stay."""
    columns = pa.schema([("p", pa.int64()), ("data", pa.binary())])
    table: Any = create_table(tmp_path, columns, format=format, partition_by=["p"])
    target = 100_000
    for number, share in enumerate([0.21, 0.3, 0.45, 0.6, 0.74] * 4):
        # Bytes that no codec makes smaller.
        data = random.Random(number).randbytes(int(share * target))
        table.append(pa.table({"p": [number % 2, 2], "data": [data, data[: target // 10]]}, schema=columns))
    policy = MaintenancePolicy(steps=["compact"], target_file_size=target)
    before = table.scan().to_arrow().sort_by("data")
    planned, done = table.maintain(policy), table.maintain(policy, dry_run=False)
    assert planned["compact"].numbers["added_files"] == done["compact"].numbers["added_files"]
    assert table.scan().to_arrow().sort_by("data") == before
    sizes: dict[int, list[int]] = {}
    for file in table.scan().files().to_pylist():
        sizes.setdefault(file["partition"]["p"], []).append(file["file_size_in_bytes"])
    for found in sizes.values():
        assert len(found) <= 2 * -(-sum(found) // target)
        assert sum(size < target / 2 for size in found) < policy.min_files
    assert sum(map(len, sizes.values())) < 25
    assert not table.maintain(policy, dry_run=False).is_due


@pytest.mark.parametrize(
    "arguments",
    [
        {"target_file_size": -1},
        {"min_files": 1},
        {"max_deleted": 2},
        {"group_size": 0},
        {"max_concurrent": 0},
        {"min_file_size": -1},
        {"max_file_size": 0},
        {"dry_run": 1},
    ],
)
def test_arguments_out_of_range(tmp_path: Path, arguments: dict[str, Any]) -> None:
    table = create_table(tmp_path, ID)
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        table.compact(**arguments)


_HIDING = {"delta": {"delta.enableDeletionVectors": "true"}, "iceberg": {"write.delete.mode": "merge-on-read"}}


@pytest.mark.parametrize("verb", ["compact", "reorg"])
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_how_new_files_are_written(tmp_path: Path, format: Literal["delta", "iceberg"], verb: str) -> None:
    table: Any = create_table(tmp_path, ID, format=format, properties=_HIDING[format])
    for numbers in (range(3), range(3, 6)):
        table.append(ids(*numbers))
    table.delete("id IN (0, 3)")
    for wrong in ({"memory": 0}, {"writer_properties": 3}, {"target_file_size": 0}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            getattr(table, verb)(**wrong)
    done = getattr(table, verb)(writer_properties=ParquetOptions(compression="gzip"), memory=1)
    assert (done.removed_files, ids_of(table)) == (2, [1, 2, 4, 5])
    (path,) = table.scan().files()["file_path"].to_pylist()
    assert pq.read_metadata(path.removeprefix("file://")).row_group(0).column(0).compression == "GZIP"


def test_equality_deletes_that_no_filter_matches(tmp_path: Path) -> None:
    """They apply to a file that is chosen by other rows, which is rewritten all the same."""
    table: Any = create_table(tmp_path, ID, format="iceberg", properties={"format-version": "2"})
    table.append(ids(*range(10)))
    table.delete_by_keys(ids(1))
    done = table.compact("id > 5", min_file_size=0)
    assert (done.removed_files, done.added_files) == (1, 1)
    assert sorted(ids_of(table)) == sorted({*range(10)} - {1})


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_all_files_are_put_together_however_few_they_are(tmp_path: Path, format: Literal["delta", "iceberg"]) -> None:
    table: Any = create_table(tmp_path, ID, format=format)
    for number in range(3):
        table.append(ids(number))
    assert table.compact(min_files=5).groups == ()
    done = table.compact(min_files=5, rewrite_all=True)
    assert (done.removed_files, done.added_files) == (3, 1)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_lost_file_of_a_busy_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Literal["delta", "iceberg"]
) -> None:
    """The table still has it, so that it is no conflict with others, whatever they commit meanwhile."""
    table: Any = create_table(tmp_path, ID, format=format)
    table.append(ids(1))
    next(iter(tmp_path.rglob("*.parquet"))).unlink()
    table.append(ids(2))
    attempts, write = [], compact._write

    def written(*arguments: Any) -> Any:
        attempts.append(1)
        open_table(tmp_path, format).append(ids(3))
        return write(*arguments)

    monkeypatch.setattr(compact, "_write", written)
    with pytest.raises(DataFileNotFoundError, match="a live data file is gone"):
        table.compact()
    assert len(attempts) == 1


def test_rows_of_one_partition_spec_go_to_the_newest(tmp_path: Path) -> None:
    columns = pa.schema([*ID, ("p", pa.string()), ("q", pa.string())])
    table: Any = create_table(tmp_path, columns, format="iceberg", partition_by="p")
    added = []
    for number, spec in enumerate(("p", "q", ("p", "q"))):
        if number:
            table.alter().partition_by(*([spec] if isinstance(spec, str) else spec)).commit()
        for one in (number * 2, number * 2 + 1):
            table.append(pa.table({"id": [one], "p": ["a"], "q": ["b"]}, columns))
        added.append(table.scan().files()["file_path"].to_pylist())

    def specs() -> list[int]:
        return sorted(one["spec_id"] for one in table.inspect("files").to_pylist())

    assert specs() == [0, 0, 1, 1, 2, 2]
    assert table.compact(spec_id=1, min_files=3).groups == ()
    assert table.compact(spec_id=1, rewrite_all=True, dry_run=True).removed_files == 2
    result = table.compact(spec_id=1, rewrite_all=True)
    assert (result.removed_files, result.added_files) == (2, 1)
    assert specs() == [0, 0, 2, 2, 2]
    assert set(added[0]) < set(table.scan().files()["file_path"].to_pylist())
    (done,) = json_lines("compact", table.location, "--spec-id", "0", "--all")
    assert done["removed_files"] == 2
    assert set(table.refresh().inspect("files")["spec_id"].to_pylist()) == {2}
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(6))
    with pytest.raises(InvalidArgumentError, match="no partition spec 7") as raised:
        table.compact(spec_id=7)
    assert raised.value.hint == "it has 0, 1, 2"
    with pytest.raises(InvalidArgumentError, match="spec_id must be an integer"):
        table.compact(spec_id="0")
    delta: Any = create_table(tmp_path / "d", columns)
    with pytest.raises(UnsupportedFeatureError, match="spec_id applies only to Iceberg tables"):
        delta.compact(spec_id=0)


def test_bins_are_filled_as_far_as_the_files_fit() -> None:
    """All sizes that five files can have: a bin ends where the next file would exceed the target, and not before."""
    packing = Packing(target_size=8, takes_all=True)
    for sizes in itertools.product(range(1, 8), repeat=5):
        files = [PackedFile(row, "p", size) for row, size in enumerate(sizes)]
        bins = pack_files(files, packing)
        assert sorted(file for one in bins for file in one) == files
        # What is nearly as large as the target has a bin of its own, past which others are put together.
        shared = [[file.size for file in one] for one in bins if one[0].size < 6]
        assert all(sum(one) <= 8 for one in shared)
        assert all(sum(one) + following[0] > 8 for one, following in itertools.pairwise(shared))
