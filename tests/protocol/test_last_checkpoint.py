"""The pointer to the last checkpoint, and its checksum (DL-LAST)."""

from __future__ import annotations

import hashlib
import json

import pytest

from deltaberg import open_table
from deltaberg.delta.log.last_checkpoint import LastCheckpoint, canonical_json, json_checksum, read_last_checkpoint
from tests.support.delta_builder import DeltaBuilder
from tests.support.recorder import Recorder
from tests.support.roads import by_every_road
from tests.support.rows import ID, ids, ids_of


def _table(builder: DeltaBuilder, last: int = 12, checkpoints: tuple[int, ...] = (10,)) -> None:
    builder.create(ID, builder.add(ids(0)))
    for version in range(1, last + 1):
        builder.commit(builder.add(ids(version)))
        if version in checkpoints:
            builder.checkpoint()


def _point(builder: DeltaBuilder, text: str | bytes) -> None:
    (builder.log / "_last_checkpoint").write_bytes(text if isinstance(text, bytes) else text.encode())


def _listed_from(builder: DeltaBuilder, recorder: Recorder, last: int = 12) -> list[str]:
    """Open the table, see that it is complete, and give where its log was listed from."""
    recorder.clear()
    table = open_table(builder.root, format="delta")
    assert table.version == last
    offsets = [offset for directory, offset in recorder.listings if directory == "_delta_log"]
    assert ids_of(table) == list(range(last + 1))
    return offsets


@by_every_road
@pytest.mark.req("DL-LAST-01", half="reader")
def test_the_pointer_saves_listing(builder: DeltaBuilder, recorder: Recorder) -> None:
    _table(builder)
    assert _listed_from(builder, recorder) == [""]
    _point(builder, '{"version":10,"size":13}')
    assert _listed_from(builder, recorder) == [f"{10:020d}."]
    assert recorder.commits == [12, 11]


_FULL = {
    "version": 10,
    "size": 13,
    "sizeInBytes": 13_000,
    "numOfAddFiles": 11,
    "checkpointSchema": {"type": "struct", "fields": [{"name": "txn", "type": "string", "nullable": True}]},
    "tags": {"a": "b", "": "é"},
    "v2Checkpoint": {"path": "x.parquet", "nonFileActions": [{"metaData": {"id": "?"}}], "sidecarFiles": [None]},
    "nobodyKnows": [1.5e3, {"x": None}],
}


@by_every_road
@pytest.mark.req("DL-LAST-02", half="reader")
@pytest.mark.req("DL-CKPT-40", half="reader")
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("pointer", [{"version": 10, "size": 4}, _FULL, {"version": 10}])
def test_the_fields_of_the_pointer(
    builder: DeltaBuilder, recorder: Recorder, pointer: dict[str, object], checksum: bool
) -> None:
    """Whatever else is embedded, the snapshot is that of the checkpoint itself."""
    _table(builder)
    text = json.dumps(pointer)
    if checksum:
        text = json.dumps({**pointer, "checksum": json_checksum(text)})
    _point(builder, text)
    described = {"file": "x.parquet", "tags": {"a": "b", "": "é"}} if pointer is _FULL else {}
    assert read_last_checkpoint(text.encode()) == LastCheckpoint(10, None, **described)  # type: ignore[arg-type]
    assert _listed_from(builder, recorder) == [f"{10:020d}."]


@by_every_road
@pytest.mark.req("DL-LAST-03")
def test_newer_checkpoints_win(builder: DeltaBuilder, recorder: Recorder) -> None:
    _table(builder, 25, (10, 20))
    _point(builder, '{"version":10,"size":13}')
    assert _listed_from(builder, recorder, 25) == [f"{10:020d}."]
    assert f"{20:020d}.checkpoint.parquet" in recorder.read
    assert recorder.commits == [25, 24, 23, 22, 21]


_USELESS = [
    *("", "{", "null", "[]", '"10"', "10", "{}", '{"size":4}', '{"version":null,"size":4}'),
    *('{"version":"10","size":4}', '{"version":10.0,"size":4}', '{"version":true,"size":4}', '{"version":-1,"size":4}'),
    *('{"version":10,"size":4}}', '{"version":NaN,"size":4}', '{"version":1e1}', "\ufeff{}"),
    *('{"version":99999999999999999999999,"size":4}', '{"version":9223372036854775808,"size":4}'),
    *('{"version":10,"checksum":5}', '{"version":10,"checksum":{"a":1}}', '{"version":10,"checksum":["a"]}'),
    *('{"version":10,"checksum":true}', '{"version":10,"checksum":""}', '{"version":10,"\\ud800":1,"checksum":"x"}'),
    *(b"\xff\xfe", b'{"version":10,"size":4,"tags":{"a":"\xff"}}', b"\x00" * 20, b"PAR1"),
    *('{"version":10,"a":' + "[" * depth + "]" * depth + ',"checksum":"x"}' for depth in (300, 900, 990, 100_000)),
]


@by_every_road
@pytest.mark.req("DL-LAST-03")
@pytest.mark.parametrize("text", _USELESS, ids=range(len(_USELESS)))
def test_a_useless_pointer_is_passed_over(builder: DeltaBuilder, recorder: Recorder, text: str | bytes) -> None:
    _table(builder)
    _point(builder, text)
    # A version that no table reaches is well-formed: it takes a listing to see that nothing is there.
    assert _listed_from(builder, recorder)[-1] == ""
    assert recorder.commits == [12, 11]


@by_every_road
@pytest.mark.req("DL-LAST-03")
@pytest.mark.parametrize("version", [7, 11, 12, 13, 500])
def test_a_dangling_pointer_is_passed_over(builder: DeltaBuilder, recorder: Recorder, version: int) -> None:
    """A pointer to where no checkpoint is (any more)."""
    _table(builder)
    _point(builder, f'{{"version":{version},"size":4}}')
    offsets = _listed_from(builder, recorder)
    assert offsets[0] == f"{version:020d}."
    assert offsets[1:] == ([] if version == 7 else [""])
    assert recorder.commits == [12, 11]


@by_every_road
@pytest.mark.req("DL-LAST-03")
def test_a_pointer_to_a_deleted_checkpoint(builder: DeltaBuilder, recorder: Recorder) -> None:
    _table(builder, 12, (5, 10))
    (builder.log / f"{10:020d}.checkpoint.parquet").unlink()
    _point(builder, '{"version":10,"size":13}')
    assert _listed_from(builder, recorder) == [f"{10:020d}.", ""]
    assert recorder.commits == [12, 11, 10, 9, 8, 7, 6]
    (builder.log / f"{5:020d}.checkpoint.parquet").unlink()
    assert _listed_from(builder, recorder) == [f"{10:020d}.", ""]


@by_every_road
@pytest.mark.req("DL-LAST-03")
@pytest.mark.parametrize("damage", [b"", b"PAR1", b"no Parquet at all, but long enough for a footer PAR1"])
def test_a_pointer_to_a_damaged_checkpoint(builder: DeltaBuilder, recorder: Recorder, damage: bytes) -> None:
    _table(builder, 12, (5, 10))
    _point(builder, '{"version":10,"size":13}')
    (builder.log / f"{10:020d}.checkpoint.parquet").write_bytes(damage)
    assert _listed_from(builder, recorder) == [f"{10:020d}.", ""]
    assert f"{5:020d}.checkpoint.parquet" in recorder.read


def test_a_pointer_past_the_wanted_version_is_not_used(builder: DeltaBuilder) -> None:
    _table(builder)
    _point(builder, '{"version":10,"size":13}')
    assert ids_of(open_table(builder.root, version=9)) == list(range(10))
    assert ids_of(open_table(builder.root, version=10)) == list(range(11))


@by_every_road
@pytest.mark.req("DL-LAST-04")
def test_the_pointer_names_parts(builder: DeltaBuilder, recorder: Recorder) -> None:
    builder.create(ID, builder.add(ids(0)))
    for version in range(1, 13):
        builder.commit(builder.add(ids(version)))
        if version == 5:
            builder.checkpoint()
        if version == 10:
            parts = builder.checkpoint(kind="multipart", parts=3)
    _point(builder, '{"version":10,"size":7,"parts":3}')
    assert read_last_checkpoint(b'{"version":10,"size":7,"parts":3}') == LastCheckpoint(10, 3)
    assert _listed_from(builder, recorder) == [f"{10:020d}."]
    assert {part.name for part in parts} <= set(recorder.read)
    # Listing decides, so that a wrong number of parts does no harm.
    _point(builder, '{"version":10,"size":7,"parts":2}')
    assert _listed_from(builder, recorder) == [f"{10:020d}."]
    _point(builder, '{"version":10,"size":7,"parts":3}')
    parts[1].unlink()
    assert _listed_from(builder, recorder) == [f"{10:020d}.", ""]
    assert not {part.name for part in parts} & set(recorder.read)
    assert f"{5:020d}.checkpoint.parquet" in recorder.read


@by_every_road
@pytest.mark.req("DL-LAST-05", half="reader")
def test_a_wrong_checksum_is_noticed(builder: DeltaBuilder, recorder: Recorder) -> None:
    checksum = "eb4e6a79cca1989449cab7004b4de31b"
    assert json_checksum('{"version":10,"size":4}') == checksum
    _table(builder)
    _point(builder, f'{{"version":10,"size":4,"checksum":"{checksum}"}}')
    assert _listed_from(builder, recorder) == [f"{10:020d}."]
    for flipped in (f'"version":11,"size":4,"checksum":"{checksum}"', f'"version":10,"size":5,"checksum":"{checksum}"'):
        _point(builder, f"{{{flipped}}}")
        assert _listed_from(builder, recorder) == [""]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _is_canonical(text: str, expected: str, digest: str | None = None) -> None:
    assert canonical_json(text) == expected
    assert json_checksum(text) == _md5(expected) == (digest or _md5(expected))
    # What the canonical form does not hold, blanks and order, does not matter.
    assert canonical_json(json.dumps(json.loads(text), indent=3)) == expected
    assert read_last_checkpoint(f'{{"checksum":"{digest}","version":1}}'.encode()) is None


@pytest.mark.req("DL-LAST-06", half="reader")
@pytest.mark.req("DL-LAST-06", half="writer")
def test_literals_and_numbers_are_their_text() -> None:
    assert canonical_json('{"a":true,"b":null,"c":3.14}') == '"a"=true,"b"=null,"c"=3.14'
    assert canonical_json('{"a":false,"b":1E2,"c":-0,"d":1.50,"e":12345678901234567890123}') == (
        '"a"=false,"b"=1E2,"c"=-0,"d"=1.50,"e"=12345678901234567890123'
    )


@pytest.mark.req("DL-LAST-07", half="reader")
@pytest.mark.req("DL-LAST-07", half="writer")
def test_strings_keep_their_quotes() -> None:
    assert canonical_json('"hello world"') == '"hello%20world"'
    _is_canonical('{"a":"hello world","b":"","c":"3"}', '"a"="hello%20world","b"="","c"="3"')


@pytest.mark.req("DL-LAST-08", half="reader")
@pytest.mark.req("DL-LAST-08", half="writer")
def test_objects_are_paths_and_values() -> None:
    _is_canonical(
        '{"a": 10, "b": {"y": null, "x": "https://delta.io"} }',
        '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null',
        "2cfc87ced1e7e99c744d05bc894337d8",
    )


@pytest.mark.req("DL-LAST-09", half="reader")
@pytest.mark.req("DL-LAST-09", half="writer")
def test_paths_are_sorted_as_bytes() -> None:
    _is_canonical(
        '{"a":[0,1,2,3,4,5,6,7,8,9,10]}',
        '"a"+0=0,"a"+1=1,"a"+10=10,"a"+2=2,"a"+3=3,"a"+4=4,"a"+5=5,"a"+6=6,"a"+7=7,"a"+8=8,"a"+9=9',
        "623e8d1eca307405452069f7a929f07d",
    )
    assert canonical_json('{"b":{"y":1,"x":2},"a":3}') == '"a"=3,"b"+"x"=2,"b"+"y"=1'
    assert canonical_json('{"a":{"z":1},"a.":2,"Z":3}') == '"Z"=3,"a"+"z"=1,"a."=2'


@pytest.mark.req("DL-LAST-09", half="reader")
def test_the_order_of_the_reference_is_accepted() -> None:
    numbers = ",".join(map(str, range(11)))
    pairs = [f'"a"+{number}={number}' for number in range(11)] + ['"version"=10']
    assert _md5(",".join(sorted(pairs))) != json_checksum(f'{{"version":10,"a":[{numbers}]}}')
    for order, digest in (
        ("specified", json_checksum(f'{{"version":10,"a":[{numbers}]}}')),
        ("spark", _md5(",".join(sorted(pairs)))),
    ):
        text = f'{{"version":10,"a":[{numbers}],"checksum":"{digest}"}}'
        assert read_last_checkpoint(text.encode()) == LastCheckpoint(10, None), order
    wrong = _md5(",".join(pairs[::-1]))
    assert read_last_checkpoint(f'{{"version":10,"a":[{numbers}],"checksum":"{wrong}"}}'.encode()) is None


@pytest.mark.req("DL-LAST-10", half="reader")
@pytest.mark.req("DL-LAST-10", half="writer")
def test_arrays_are_positions() -> None:
    text, expected = '[null, "hi ho", 2.71]', '0=null,1="hi%20ho",2=2.71'
    assert canonical_json(text) == expected
    assert json_checksum(text) == _md5(expected) == "666498010c8c14b75250e953d33aea4c"
    # A leaf is a value that holds nothing else: what is empty leaves no trace.
    assert canonical_json('{"a":[],"b":{},"c":[[1],{}]}') == '"c"+0+0=1'


@pytest.mark.req("DL-LAST-11", half="reader")
@pytest.mark.req("DL-LAST-11", half="writer")
def test_only_the_outer_checksum_is_left_out() -> None:
    for anything in ('"x"', "1", '{"a":[1]}', "null"):
        text = f'{{"k1": "v1", "checksum": {anything}, "k3": 23}}'
        _is_canonical(text, '"k1"="v1","k3"=23', "32e9265a46ef2d45a3a1e0099d1df146")
    _is_canonical('{"t":{"checksum":"x"}}', '"t"+"checksum"="x"')
    digest = json_checksum('{"version":3,"t":{"checksum":"x"}}')
    for inner, expected in (("x", LastCheckpoint(3, None)), ("y", None)):
        text = f'{{"version":3,"t":{{"checksum":"{inner}"}},"checksum":"{digest}"}}'
        assert read_last_checkpoint(text.encode()) == expected


@by_every_road
@pytest.mark.req("DL-LAST-12")
@pytest.mark.parametrize(
    "text",
    [
        '{"version":10,"version":11,"size":4}',
        '{"version":10,"version":10,"size":4}',
        '{"version":10,"size":4,"tags":{"a":"b","a":"c"}}',
        '{"version":10,"size":4,"tags":{"a":"b","\\u0061":"b"}}',
    ],
)
def test_a_repeated_key_makes_the_pointer_invalid(builder: DeltaBuilder, recorder: Recorder, text: str) -> None:
    _table(builder)
    _point(builder, text)
    assert _listed_from(builder, recorder) == [""]


@pytest.mark.req("DL-LAST-13", half="reader")
@pytest.mark.req("DL-LAST-13", half="writer")
def test_the_full_example_of_a_checksum() -> None:
    text = (
        '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], '
        '{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
    )
    expected = (
        '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,"k1"+"k3"+2+"k4"="v4",'
        '"k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6","k1"+"k3"+2+"k5"+2="v7"'
    )
    _is_canonical(text, expected, "6a92d155a59bf2eecbd4b4ec7fd1f875")


@pytest.mark.req("DL-LAST-14", half="reader")
@pytest.mark.req("DL-LAST-14", half="writer")
def test_octets_are_url_encoded() -> None:
    _is_canonical(
        '{"version":1,"size":3,"tags":{"a b":"é>~"}}',
        '"size"=3,"tags"+"a%20b"="%C3%A9%3E~","version"=1',
        "493852cc3988565887cbfddba210a456",
    )
    unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
    for code in range(128):
        shown = chr(code) if chr(code) in unreserved else f"%{code:02X}"
        assert canonical_json(json.dumps({chr(code): chr(code)})) == f'"{shown}"="{shown}"'
    assert canonical_json('{"𝄞":"\\ud834\\udd1e"}') == '"%F0%9D%84%9E"="%F0%9D%84%9E"'
