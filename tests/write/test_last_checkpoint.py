"""What ``_last_checkpoint`` says after the package wrote a checkpoint (DL-LAST)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltaberg import DeltaTable
from deltaberg.delta.log.last_checkpoint import encode_last_checkpoint, read_last_checkpoint
from tests.support.delta_builder import DeltaBuilder
from tests.support.recorder import Recorder
from tests.support.rows import ID, ids, ids_of, numbered_commits


def _pointer(builder: DeltaBuilder) -> Any:
    return json.loads((builder.log / "_last_checkpoint").read_bytes())


@pytest.mark.req("DL-LAST-02", half="writer")
def test_its_members(builder: DeltaBuilder) -> None:
    builder.create(ID, builder.add(ids(1)))
    for _ in range(9):
        builder.commit()
    builder.commit(builder.add(ids(2)))
    info = DeltaTable(builder.root).checkpoint()
    found = _pointer(builder)
    assert found.pop("checksum")
    assert found == {"version": 10, "size": 4, "sizeInBytes": info.size, "numOfAddFiles": 2}


@pytest.mark.req("DL-LAST-01", half="writer")
def test_readers_list_from_it(builder: DeltaBuilder, recorder: Recorder) -> None:
    numbered_commits(builder, 5)
    DeltaTable(builder.root, version=4).checkpoint()
    recorder.clear()
    assert ids_of(DeltaTable(builder.root)) == list(range(6))
    assert [offset for folder, offset in recorder.listings if folder == "_delta_log"] == [f"{4:020d}."]
    (builder.log / "_last_checkpoint").unlink()
    assert ids_of(DeltaTable(builder.root)) == list(range(6))


@pytest.mark.req("DL-LAST-05", half="writer")
def test_the_checksum_is_that_of_its_members(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 1)
    DeltaTable(builder.root).checkpoint()
    path = builder.log / "_last_checkpoint"
    data = path.read_bytes()
    assert read_last_checkpoint(data) is not None
    assert read_last_checkpoint(data.replace(b'"version":1', b'"version":0')) is None
    wanted = b'{"version":10,"size":4,"checksum":"eb4e6a79cca1989449cab7004b4de31b"}'
    assert encode_last_checkpoint({"version": 10, "size": 4, "parts": None}) == wanted


def test_a_checkpoint_of_an_old_version_leaves_a_later_pointer(builder: DeltaBuilder) -> None:
    numbered_commits(builder, 5)
    DeltaTable(builder.root).checkpoint()
    before = _pointer(builder)
    assert before["version"] == 5
    DeltaTable(builder.root, version=3).checkpoint()
    assert _pointer(builder) == before
    (builder.log / "_last_checkpoint").write_text("{")
    DeltaTable(builder.root, version=3).checkpoint()
    assert _pointer(builder)["version"] == 3
