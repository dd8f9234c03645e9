"""Action reconciliation (DL-REC)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from deltaberg import open_table
from tests.support.delta_builder import DeltaBuilder
from tests.support.roads import by_every_road
from tests.support.rows import ID, ids, ids_of, live_files, tombstones


def _with(add: dict[str, Any], vector: dict[str, Any] | None) -> dict[str, Any]:
    return {"add": {**add["add"], "deletionVector": vector}}


@pytest.mark.req("DL-REC-01", half="reader")
def test_the_latest_protocol_and_metadata_count(builder: DeltaBuilder) -> None:
    builder.create(ID)
    builder.commit(builder.metadata(ID, name="second"))
    builder.commit()
    builder.commit(builder.protocol(1, 4))
    versions = [open_table(builder.root, "delta", version=version).protocol.min_writer_version for version in range(4)]
    assert versions == [2, 2, 2, 4]
    assert [open_table(builder.root, "delta", version=version).metadata.name for version in range(2)] == [
        None,
        "second",
    ]
    assert open_table(builder.root, "delta").metadata.name == "second"


@pytest.mark.req("DL-REC-02", half="reader")
def test_the_latest_version_of_each_application_counts(builder: DeltaBuilder) -> None:
    builder.create(ID)
    builder.commit({"txn": {"appId": "s1", "version": 1}}, {"txn": {"appId": "s2", "version": 5}})
    builder.commit({"txn": {"appId": "s1", "version": 2}})
    found = open_table(builder.root, "delta").transactions
    assert {name: one.version for name, one in found.items()} == {"s1": 2, "s2": 5}


def _domain(name: str, configuration: str, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


@pytest.mark.req("DL-REC-03", half="reader")
@pytest.mark.parametrize("checkpoint", [None, 1, 2])
def test_a_removed_domain_is_gone_until_it_comes_back(builder: DeltaBuilder, checkpoint: int | None) -> None:
    builder.create(ID, protocol=builder.protocol(1, 7, None, ["domainMetadata"]))
    builder.commit(_domain("d1", "A"))
    builder.commit(_domain("d1", "A", removed=True))
    builder.commit(_domain("d1", "B"))
    if checkpoint is not None:
        builder.checkpoint(checkpoint)
    found = [open_table(builder.root, "delta", version=version).domain_metadata for version in (1, 2, 3)]
    assert found == [{"d1": "A"}, {}, {"d1": "B"}]


@by_every_road
@pytest.mark.req("DL-REC-04", half="reader")
def test_the_newest_reference_to_a_file_counts(builder: DeltaBuilder) -> None:
    builder.create(ID)
    add = builder.add(ids(1), path="f.parquet")
    builder.commit(add)
    builder.commit(builder.remove(add))
    assert (live_files(open_table(builder.root)), tombstones(open_table(builder.root))) == ([], [("f.parquet", None)])
    builder.commit(add)
    table = open_table(builder.root)
    assert (live_files(table), tombstones(table)) == ([("f.parquet", 0)], [])


@by_every_road
@pytest.mark.req("DL-REC-05", half="reader")
@pytest.mark.parametrize("checkpoint", [None, 1, 2])
def test_a_file_is_live_with_one_vector_and_removed_with_others(builder: DeltaBuilder, checkpoint: int | None) -> None:
    builder.create(ID, protocol=builder.features("deletionVectors"))
    x, y = builder.vectors([[0], [0, 1]], "i")
    plain = builder.add(ids(1, 2, 3), path="f.parquet")
    builder.commit(plain)
    builder.commit(builder.remove(plain), _with(plain, x))
    builder.commit(builder.remove(_with(plain, x)), _with(plain, y))
    if checkpoint is not None:
        builder.checkpoint(checkpoint)
    table = open_table(builder.root)
    assert live_files(table) == [("f.parquet", 2)]
    assert tombstones(table) == sorted([("f.parquet", None), ("f.parquet", x["pathOrInlineDv"])], key=repr)
    assert ids_of(table) == [3]


@by_every_road
@pytest.mark.req("DL-REC-06")
@pytest.mark.parametrize("checkpoint", [None, 1])
def test_a_path_is_live_once(builder: DeltaBuilder, checkpoint: int | None) -> None:
    builder.create(ID, protocol=builder.features("deletionVectors"))
    x, y = builder.vectors([[0], [1, 2]], "i")
    plain = builder.add(ids(1, 2, 3), path="f.parquet")
    builder.commit(_with(plain, x))
    builder.commit(_with(plain, y))
    if checkpoint is not None:
        builder.checkpoint(checkpoint)
    table = open_table(builder.root)
    assert live_files(table) == [("f.parquet", 2)]
    assert ids_of(table) == [1]


@by_every_road
@pytest.mark.req("DL-REC-07")
def test_removed_files_are_not_planned(builder: DeltaBuilder) -> None:
    adds = [builder.add(ids(number)) for number in range(5)]
    builder.create(ID, *adds)
    builder.commit(*map(builder.remove, adds[:2]))
    table = open_table(builder.root, "delta")
    assert table.scan().files().num_rows == 3
    assert table.tombstones.num_rows == 2
    assert ids_of(table) == [2, 3, 4]


def _random_history(builder: DeltaBuilder, rng: random.Random) -> int:
    """Commit 200 versions that add, remove and add again, with and without deletion vectors; return one of the last."""
    builder.create(ID, protocol=builder.features("deletionVectors", "v2Checkpoint"))
    vectors = builder.vectors([[number] for number in range(12)], "i")
    removed: list[dict[str, Any]] = []
    for _ in range(200):
        live = [{"add": dict(action["add"])} for action in builder.live().values()]
        actions = [builder.add(path=f"f{rng.randrange(10**9)}.parquet", size=1) for _ in range(rng.randrange(3))]
        for add in rng.sample(live, min(len(live), rng.randrange(3))):
            actions.append(builder.remove(add))
            if rng.random() < 0.5:
                actions.append(_with(add, rng.choice(vectors)))
            else:
                removed.append(add)
        if removed and rng.random() < 0.2:
            actions.append(removed.pop(rng.randrange(len(removed))))
        builder.commit(*actions)
    return rng.randrange(150, 200)


def _expected(builder: DeltaBuilder, version: int) -> set[tuple[str, str | None]]:
    return {
        (add["add"]["path"], (add["add"].get("deletionVector") or {}).get("pathOrInlineDv"))
        for add in builder.live(version).values()
    }


@pytest.mark.req("DL-REC-08")
@pytest.mark.parametrize("run", range(4))
def test_random_histories_replay_alike_in_both_directions(builder: DeltaBuilder, seed: int, run: int) -> None:
    """The builder replays oldest first, the reader newest first, from every kind of checkpoint on."""
    rng = random.Random(seed + run)
    version = _random_history(builder, rng)

    def keys(table: Any) -> set[tuple[str, str | None]]:
        found = table.live_files
        vectors = [None if one is None else one["pathOrInlineDv"] for one in found["deletionVector"].to_pylist()]
        return set(zip(found["path"].to_pylist(), vectors, strict=True))

    expected = _expected(builder, version)
    assert keys(open_table(builder.root, "delta", version=version)) == expected
    kinds: list[dict[str, Any]] = [
        {},
        {"kind": "multipart", "parts": 3},
        {"kind": "uuid-parquet", "sidecars": 2},
        {"kind": "uuid-json"},
    ]
    files = builder.checkpoint(rng.randrange(1, version), **kinds[run])
    table = open_table(builder.root, "delta", version=version)
    assert keys(table) == expected
    assert len(table.live_files) == len(expected)
    assert files


@by_every_road
@pytest.mark.req("DL-REC-08")
@pytest.mark.parametrize("kind", [{"kind": "multipart", "parts": 3}, {"kind": "uuid-parquet", "sidecars": 2}])
def test_random_histories_are_planned_from_any_checkpoint(
    builder: DeltaBuilder, rng: random.Random, kind: dict[str, Any]
) -> None:
    """Tasks that plan a part of a checkpoint leave out of it what later commits changed."""
    version = _random_history(builder, rng)
    builder.checkpoint(rng.randrange(120, version), **kind)
    found = open_table(builder.root, version=version).scan().files()
    names = [path.rsplit("/", 1)[-1] for path in found["file_path"].to_pylist()]
    deleted = found["deleted_record_count"].to_pylist()
    expected = [(path, int(vector is not None)) for path, vector in _expected(builder, version)]
    assert sorted(zip(names, deleted, strict=True)) == sorted(expected)


@by_every_road
@pytest.mark.req("DL-REC-09")
def test_a_remove_of_nothing_does_no_harm(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="f.parquet"))
    builder.commit({"remove": {"path": "g.parquet", "deletionTimestamp": 1, "dataChange": True}})
    table = open_table(builder.root)
    assert live_files(table) == [("f.parquet", 0)]
    assert tombstones(table) == [("g.parquet", None)]


@by_every_road
@pytest.mark.req("DL-REC-10", half="reader")
@pytest.mark.parametrize("checkpoint", [None, 0])
@pytest.mark.parametrize("spelling", ["file:{}", "file://{}", "{}", "file:///{}"])
def test_paths_are_compared_in_one_form(builder: DeltaBuilder, spelling: str, checkpoint: int | None) -> None:
    place = builder.root / "a b.parquet"
    escaped = str(place).replace(" ", "%20")
    foreign = builder.add(ids(1), path=str(place), log_path=spelling.format(escaped).replace("////", "///"))
    other = builder.add(ids(2), path="c.parquet")
    builder.create(ID, foreign, other)
    if checkpoint is not None:
        builder.checkpoint(checkpoint)
    assert ids_of(open_table(builder.root)) == [1, 2]
    builder.commit({"remove": {"path": escaped, "deletionTimestamp": 1, "dataChange": True}})
    assert ids_of(open_table(builder.root)) == [2]


@by_every_road
@pytest.mark.req("DL-REC-10", half="reader")
def test_escapes_in_relative_paths_are_compared_decoded(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1), path="a=1/b c.parquet", log_path="a%3D1/b%20c.parquet"))
    builder.commit({"remove": {"path": "a=1/b%20c.parquet", "deletionTimestamp": 1, "dataChange": True}})
    assert ids_of(open_table(builder.root)) == []
