"""Files whose entries name keys: they are refused only if they are really encrypted."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltaberg import open_table
from deltaberg.errors import UnsupportedFeatureError
from tests.support.iceberg_builder import IcebergBuilder
from tests.support.roads import by_every_road


def _ids(builder: IcebergBuilder) -> list[int]:
    return sorted(open_table(builder.root).scan(columns=["id"]).to_arrow().column("id").to_pylist())


@by_every_road
@pytest.mark.req("ICE-MAN-20", half="reader")
@pytest.mark.parametrize("content", [0, 1, 2])
def test_the_magic_of_a_file_tells_whether_its_keys_encrypt_it(tmp_path: Path, content: int) -> None:
    builder = IcebergBuilder(tmp_path / "t", {"id": "long", "s": "string"})
    file = builder.data([{"id": 1, "s": "1"}, {"id": 2, "s": "2"}])
    others = [file, builder.position_deletes([(file, 0)]), builder.equality_deletes([1], [{"id": 2}])]
    others[content].more["key_metadata"] = b"\xff\x00opaque"
    builder.commit(file)
    if content:
        builder.commit(others[content])
    assert _ids(builder) == [[1, 2], [2], [1]][content]
    Path(others[content].path).write_bytes(b"AGS1" + bytes(range(256)))
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        _ids(builder)
