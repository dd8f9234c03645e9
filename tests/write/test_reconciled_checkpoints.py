"""Checkpoints that the package wrote hold what replaying the log comes to (DL-REC)."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import DeltaTable
from tests.support.delta_builder import DeltaBuilder
from tests.support.rows import ID, ids, ids_of
from tests.support.written_checkpoints import actions_in, of_kind

#: No tombstone of these tests is as old as this.
_KEEP_ALL = {"delta.deletedFileRetentionDuration": "interval 100000 days"}


def _checkpoint(builder: DeltaBuilder, version: int | None = None) -> list[tuple[str, dict[str, Any]]]:
    (name,) = DeltaTable(builder.root, version=version).checkpoint().files
    return actions_in(builder.log / name)


@pytest.mark.req("DL-REC-01", "DL-REC-02", "DL-REC-03", half="writer")
def test_the_latest_of_each_is_kept(builder: DeltaBuilder) -> None:
    def domain(text: str, removed: bool = False) -> dict[str, Any]:
        return {"domainMetadata": {"domain": "d1", "configuration": text, "removed": removed}}

    def transaction(name: str, version: int) -> dict[str, Any]:
        return {"txn": {"appId": name, "version": version}}

    builder.create(ID, builder.add(ids(0)), protocol=builder.protocol(1, 2), configuration=_KEEP_ALL)
    builder.commit(transaction("s1", 1), transaction("s2", 5))
    builder.commit(transaction("s1", 2))
    builder.commit(builder.protocol(1, 4))
    writes_domains = builder.features(writer_only=["domainMetadata"])
    builder.commit(writes_domains, domain("A"))
    builder.commit(domain("A", removed=True))
    builder.commit(domain("B"))
    levels = []
    for version in (2, 3):
        found = _checkpoint(builder, version)
        (protocol,) = of_kind(found, "protocol")
        levels.append((protocol["minReaderVersion"], protocol["minWriterVersion"]))
        assert len(of_kind(found, "metaData")) == 1
        assert {one["appId"]: one["version"] for one in of_kind(found, "txn")} == {"s1": 2, "s2": 5}
    assert levels == [(1, 2), (1, 4)]
    texts = {
        version: [one["configuration"] for one in of_kind(_checkpoint(builder, version), "domainMetadata")]
        for version in (4, 5, 6)
    }
    assert texts == {4: ["A"], 5: [], 6: ["B"]}


@pytest.mark.req("DL-REC-04", "DL-REC-05", half="writer")
def test_files_are_kept_by_path_and_vector(builder: DeltaBuilder) -> None:
    plain = builder.add(ids(0, 1, 2), stats="count")
    builder.create(ID, plain, protocol=builder.features("deletionVectors"), configuration=_KEEP_ALL)
    builder.commit(builder.remove(plain))
    builder.commit(plain)
    actions = _checkpoint(builder)
    assert [add["path"] for add in of_kind(actions, "add")] == [plain["add"]["path"]]
    assert of_kind(actions, "remove") == []

    one, two = builder.vector([0]), builder.vector([0, 1])
    with_one = {"add": {**plain["add"], "deletionVector": one}}
    builder.commit(builder.remove(plain), with_one)
    builder.commit(builder.remove(with_one), {"add": {**plain["add"], "deletionVector": two}})
    actions = _checkpoint(builder)
    assert [add["deletionVector"] for add in of_kind(actions, "add")] == [two]
    dead = [remove.get("deletionVector", {}).get("pathOrInlineDv") for remove in of_kind(actions, "remove")]
    assert sorted(dead, key=str) == sorted([None, one["pathOrInlineDv"]], key=str)
    assert ids_of(DeltaTable(builder.root)) == [2]


@pytest.mark.req("DL-REC-10", half="writer")
def test_a_file_is_removed_as_it_was_added(builder: DeltaBuilder) -> None:
    ours = builder.add(ids(0), stats="full", path="a b.parquet")
    away = builder.root.parent / "away.parquet"
    foreign = builder.add(ids(1), stats="full", path=str(away), log_path=f"file:{away}")
    builder.create(ID, ours, foreign, configuration=_KEEP_ALL)
    DeltaTable(builder.root).delete(None)
    actions = _checkpoint(builder)
    assert of_kind(actions, "add") == []
    assert sorted(one["path"] for one in of_kind(actions, "remove")) == ["a%20b.parquet", f"file:{away}"]
    builder.version += 1
    builder.commit(foreign)
    builder.commit({"remove": {"path": str(away), "deletionTimestamp": 1, "dataChange": True}})
    actions = _checkpoint(builder)
    assert of_kind(actions, "add") == []


@pytest.mark.req("DL-DV-28", half="writer")
def test_the_examples_of_vectors_are_written_as_they_are(builder: DeltaBuilder) -> None:
    common = {"sizeInBytes": 40, "cardinality": 6}
    absolute = "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    examples = [
        {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, **common},
        {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", **common},
        {"storageType": "p", "pathOrInlineDv": absolute, "offset": 4, **common},
    ]
    adds = [builder.add(path=f"f{number}", stats='{"numRecords":9}', vector=one) for number, one in enumerate(examples)]
    builder.create(ID, *adds, protocol=builder.features("deletionVectors"))
    found = {add["path"]: add["deletionVector"] for add in of_kind(_checkpoint(builder), "add")}
    assert [found[f"f{number}"] for number in range(3)] == examples
