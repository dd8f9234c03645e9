"""What this library does not understand survives: actions and schemas are written back as they were read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg import open_table
from deltaberg.delta.actions.log_action import LogAction, read_actions
from deltaberg.delta.actions.table_actions import Format, Metadata, Protocol, read_metadata, read_protocol
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.schema_json import SchemaDocument, field_to_json, schema_to_json
from deltaberg.errors import ColumnNotFoundError, CorruptLogError
from deltaberg.lossless_json import Number, read_json, write_json
from deltaberg.schema.types import Field, List, Map, Primitive, Struct
from tests.kernels.json_text import Raw, spell
from tests.kernels.twins import backends
from tests.support.delta_builder import DeltaBuilder
from tests.support.effort import examples
from tests.support.rows import ID, ids, ids_of

_NUMBERS = [
    *("0", "-0", "1.10", "1e3", "1E+2", "-0.0", "5e-324", "1e400", "0.30000000000000000001"),
    *("9223372036854775808", "-9223372036854775809", "1" * 500),
]
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from([Raw(text) for text in _NUMBERS])
)
_NAMES = st.sampled_from(["a", "metadata", "type", "ü 😀", "\ud800", 'a"\\b']) | st.text(max_size=5)
_ANY = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
#: Members that no version of the protocol has.
_UNKNOWN = st.dictionaries(_NAMES.map("new ".__add__), _ANY, max_size=3)
#: Chooses one of the many spellings of a text.
_RANDOM = st.integers(0, 1 << 32).map(random.Random)
_STRING_MAP = st.dictionaries(st.text(max_size=6), st.none() | st.text(max_size=6), max_size=3)


def _canonical(text: str) -> str:
    """Return one text for all texts of a JSON value; numbers count as they are spelled."""
    value = json.loads(text, parse_int=lambda digits: {"number": digits}, parse_float=lambda digits: {"number": digits})
    return json.dumps(value, sort_keys=True)


def _same(found: str, expected: str) -> None:
    assert _canonical(found) == _canonical(expected)


@examples(100)
@given(_ANY, _RANDOM)
def test_values(value: Any, rng: random.Random) -> None:
    text = spell(value, rng)
    written = write_json(read_json(text))
    assert write_json(read_json(text, plain=True)) == written
    _same(written, text)
    written.encode()
    assert write_json(read_json(written)) == written


@pytest.mark.parametrize("text", ['{"a":[' * 400 + "1.0" + "]}" * 400, "1" * 5000, "-" + "1" * 5000 + ".0"])
def test_values_that_are_deep_or_long(text: str) -> None:
    assert write_json(read_json(text)) == text


def test_plain_numbers_are_those_that_python_spells_alike() -> None:
    texts = ["0", "12", "-12", "1.5", "1e+300", "-0", "1.50", "1e3", "1e400", "0.30000000000000000001", "9" * 5000]
    found = read_json(f"[{','.join(texts)}]", plain=True)
    assert [value for value in found if not isinstance(value, Number)] == [0, 12, -12, 1.5, 1e300]
    assert [type(value) for value in found[:5]] == [int, int, int, float, float]
    assert write_json(found) == f"[{','.join(texts)}]"


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "", "{", '{"a":1,}', "01"])
def test_what_is_not_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


def test_numbers() -> None:
    found = [Number(text).integer for text in ("12", "-12", "1.0", "1e2", "9" * 30, "9" * 401)]
    assert found == [12, -12, None, None, 10**30 - 1, None]
    with pytest.raises(ValueError, match="repeated"):
        read_json('{"a":1,"a":1}', unique=True)
    with pytest.raises(ValueError, match=r"."):
        write_json({"a": float("nan")})


_METADATA = st.fixed_dictionaries(
    {
        "id": st.text(max_size=4),
        "format": st.fixed_dictionaries({"provider": st.just("parquet"), "options": _STRING_MAP}),
        "schemaString": st.just('{"type":"struct","fields":[]}') | st.text(max_size=8),
        "partitionColumns": st.lists(st.text(max_size=4), max_size=2),
        "configuration": _STRING_MAP,
    },
    optional={"name": st.none() | st.text(max_size=4), "createdTime": st.integers(0, 1 << 50)},
)
_PROTOCOL = st.fixed_dictionaries(
    {"minReaderVersion": st.integers(1, 3), "minWriterVersion": st.integers(1, 7)},
    optional={"readerFeatures": st.lists(st.text(max_size=5), max_size=3)},
)
_FILE = {
    "path": st.text(min_size=1, max_size=8),
    "partitionValues": _STRING_MAP,
    "size": st.integers(0, 1 << 40),
    "modificationTime": st.integers(0, 1 << 50),
    "dataChange": st.booleans(),
}
_ADD = st.fixed_dictionaries(_FILE, optional={"tags": _STRING_MAP, "stats": st.sampled_from(['{"numRecords": 1.0 }'])})
_REMOVE = st.fixed_dictionaries({**_FILE, "deletionTimestamp": st.none() | st.integers(0, 1 << 50)})
_TRANSACTION = st.fixed_dictionaries({"appId": st.text(max_size=4), "version": st.integers(0, 1 << 50)})
_DOMAIN = st.fixed_dictionaries(
    {"domain": st.text(max_size=4), "configuration": st.text(max_size=4), "removed": st.booleans()}
)
_ACTIONS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "metaData": _METADATA,
    "protocol": _PROTOCOL,
    "add": _ADD,
    "remove": _REMOVE,
    "txn": _TRANSACTION,
    "domainMetadata": _DOMAIN,
    "commitInfo": st.dictionaries(_NAMES, _ANY, max_size=4),
}


@st.composite
def _action(draw: st.DrawFn, *names: str) -> dict[str, Any]:
    name = draw(st.sampled_from(names or tuple(_ACTIONS)))
    members: dict[str, Any] = draw(_ACTIONS[name])
    return {name: {**members, **draw(_UNKNOWN)}}


@examples(80)
@given(st.lists(_action(), max_size=5), _RANDOM)
def test_actions_of_a_log_entry(actions: list[dict[str, Any]], rng: random.Random) -> None:
    lines = [spell(action, rng) for action in actions]
    data = "\n".join([*lines, ""]).encode()
    found = list(read_actions(data))
    assert [action.name for action in found] == [next(iter(action)) for action in actions]
    for action, line in zip(found, lines, strict=True):
        _same(action.to_json(), line)
    adds = [line for line, action in zip(lines, actions, strict=True) if "add" in action]
    assert [_canonical(action.to_json()) for action in read_actions(data, "add")] == list(map(_canonical, adds))


@pytest.mark.parametrize("line", [b"[]", b"{", b'{"add":[]}', b'\xff{"add":{}}'])
def test_lines_that_are_no_actions(line: bytes) -> None:
    with pytest.raises(CorruptLogError) as caught:
        list(read_actions(b'{"add":{"path":"x","size":1}}\n\n' + line))
    assert caught.value.context["line"] == 3


@pytest.mark.parametrize("kernels", backends(), ids=lambda module: module.__name__)
@examples(60)
@given(_action("protocol"), _action("metaData"), _RANDOM)
def test_protocol_and_metadata_after_replay(
    kernels: ModuleType, protocol: dict[str, Any], metadata: dict[str, Any], rng: random.Random
) -> None:
    lines = [spell(protocol, rng), spell(metadata, rng)]
    replay = kernels.replay([(0, "\n".join(lines).encode())])
    _same(read_protocol(replay.protocol[1]).action.to_json(), lines[0])
    _same(read_metadata(replay.metadata[1]).action.to_json(), lines[1])


@examples(80)
@given(_action("metaData"), _STRING_MAP, st.none() | st.text(max_size=5), _RANDOM)
def test_a_change_leaves_the_rest(
    metadata: dict[str, Any], properties: dict[str, str | None], name: str | None, rng: random.Random
) -> None:
    body = metadata["metaData"]
    read = read_metadata(spell(body, rng))
    changed = read.with_properties(properties).with_members({"name": name})
    expected = {key: value for key, value in body.items() if key != "name"} | ({} if name is None else {"name": name})
    expected["configuration"] = {
        **{key: value for key, value in body["configuration"].items() if key not in properties},
        **{key: value for key, value in properties.items() if value is not None},
    }
    _same(changed.action.to_json(), spell({"metaData": expected}))
    assert changed.name == name
    assert changed.configuration == {key: text for key, text in expected["configuration"].items() if text is not None}
    _same(read.action.to_json(), spell(metadata))


def test_a_change_is_checked() -> None:
    protocol = read_protocol('{"minReaderVersion":1,"minWriterVersion":2,"later":{"weight":1.50}}')
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}
    upgraded = protocol.with_members(features)
    assert (upgraded.min_reader_version, upgraded.writer_features) == (3, ("x",))
    assert upgraded.action.members["later"] == {"weight": Number("1.50")}
    assert upgraded.with_members({"readerFeatures": None, "writerFeatures": None}).reader_features is None
    with pytest.raises(CorruptLogError, match="minReaderVersion"):
        protocol.with_members({"minReaderVersion": None})
    with pytest.raises(CorruptLogError, match="minReaderVersion"):
        protocol.with_members({"minReaderVersion": "3"})


def test_actions_of_new_tables() -> None:
    protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "rowTracking"))
    assert read_protocol(write_json(protocol.action.members)) == protocol
    assert "readerFeatures" not in Protocol(1, 2).action.members
    metadata = Metadata("1", Format("parquet"), '{"type":"struct","fields":[]}', ("a",), {"k": "v"}, created_time=5)
    assert metadata.with_properties({"k": None}).action.to_json() == (
        '{"metaData":{"id":"1","format":{"provider":"parquet","options":{}},"schemaString":'
        r'"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["a"],"configuration":{},"createdTime":5}}'
    )
    assert read_metadata(write_json(metadata.action.members)) == metadata


_PRIMITIVES = st.sampled_from(["long", "int", "string", "varchar(10)", "char(3)", "decimal( 9, 2 )", "timestamp"])


def _typed(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw objects with these members, and with some that are unknown."""
    return st.builds(lambda known, unknown: {**known, **unknown}, st.fixed_dictionaries(members), _UNKNOWN)


def _fields(types: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    field = _typed(name=st.text(max_size=4), type=types, nullable=st.booleans(), metadata=_UNKNOWN)
    return st.lists(field, max_size=3, unique_by=lambda drawn: drawn["name"])


def _inside(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        _typed(type=st.just("struct"), fields=_fields(types))
        | _typed(type=st.just("array"), elementType=types, containsNull=st.booleans())
        | _typed(type=st.just("map"), keyType=types, valueType=types, valueContainsNull=st.booleans())
        | _typed(type=st.just("udt"), sqlType=types, pyClass=st.text(max_size=3))
    )


_SCHEMAS = _typed(type=st.just("struct"), fields=_fields(st.recursive(_PRIMITIVES, _inside, max_leaves=5)))


def _paths(node: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Return the fields of a drawn schema with their paths."""
    if not isinstance(node, dict):
        return []
    if node["type"] == "struct":
        here = [((*path, field["name"]), field) for field in node["fields"]]
        return here + [deeper for where, field in here for deeper in _paths(field["type"], where)]
    steps = {"array": ["element"], "map": ["key", "value"], "udt": ["sql"]}[node["type"]]
    return [
        deeper for step in steps for deeper in _paths(node[f"{step}Type"], path if step == "sql" else (*path, step))
    ]


@examples(80)
@given(_SCHEMAS, _RANDOM, st.data())
def test_schemas(schema: dict[str, Any], rng: random.Random, data: st.DataObject) -> None:
    text = spell(schema, rng)
    # What is drawn is a schema that can be read.
    assert parse_schema(text).names == [field["name"] for field in schema["fields"]]
    document = SchemaDocument(text)
    assert document.to_json() == text
    fields = _paths(schema)
    for path, field in fields:
        assert _canonical(write_json(document.field(*path))) == _canonical(spell(field))
    if not fields:
        return
    path, field = data.draw(st.sampled_from(fields))
    changed = document.field(*path)
    changed["metadata"]["comment"] = field["metadata"]["comment"] = "new"
    changed["nullable"] = field["nullable"] = not field["nullable"]
    _same(document.to_json(), spell(schema))
    siblings = document.fields(*path[:-1])
    siblings.append(field_to_json(Field("added by us", Primitive("long"))))
    added = parse_schema(document.to_json())
    assert (added.get("added by us") is not None) == (len(path) == 1)
    siblings.pop()
    changed["metadata"].pop("comment")
    changed["nullable"] = not changed["nullable"]
    assert document.to_json() == text


def test_paths_of_a_schema() -> None:
    inner = Struct((Field("x", Primitive("long")), Field("element", List(Field("element", Primitive("string"))))))
    schema = Struct(
        (Field("m", Map(Field("key", inner, nullable=False), Field("value", List(Field("element", inner))))),)
    )
    document = SchemaDocument(schema_to_json(schema))
    assert [field["name"] for field in document.fields("m", "value", "element")] == ["x", "element"]
    assert document.field("m", "key", "x")["type"] == "long"
    for path in (
        ("n",),
        ("m", "x"),
        ("m", "element"),
        ("m", "value", "key"),
        ("m", "key", "y"),
        ("m", "key", "x", "z"),
    ):
        with pytest.raises(ColumnNotFoundError, match=path[0]):
            document.field(*path, "x")
    for path in (("m",), ("m", "value"), ("m", "key", "x")):
        with pytest.raises(CorruptLogError, match="no struct"):
            document.fields(*path)
    for text in ("[]", '{"type":"struct"}', '{"type":"struct","fields":[1]}', '{"type":"map"}'):
        with pytest.raises(CorruptLogError, match="the schema has no struct here"):
            SchemaDocument(text).field("a")
    with pytest.raises(CorruptLogError, match="not JSON"):
        SchemaDocument("{")


_NULLS = {"a": "1", "b": None}


@pytest.mark.parametrize("kind", ["log", "classic", "multipart", "uuid-parquet", "uuid-json"])
def test_null_properties_and_options_are_kept(builder: DeltaBuilder, kind: str) -> None:
    """If a checkpoint is Parquet, it has no room for members that the protocol does not know."""
    unknown: dict[str, Any] = {"later": {"weight": 2.5, "list": [None, "ü"]}} if kind in ("log", "uuid-json") else {}
    metadata = builder.metadata(ID, format={"provider": "parquet", "options": dict(_NULLS)}, name="n")
    metadata["metaData"] |= {"configuration": dict(_NULLS), **unknown}
    protocol = builder.features(*(["v2Checkpoint"] if kind.startswith("uuid") else ["deletionVectors"]))
    protocol["protocol"] |= unknown
    builder.commit(protocol, metadata, builder.add(ids(1, 2)))
    if kind != "log":
        builder.checkpoint(kind=kind, parts=2)
        (builder.log / f"{0:020d}.json").unlink()
    table = open_table(builder.root, "delta")
    assert ids_of(table) == [1, 2]
    assert table.properties == table.metadata.format.options == {"a": "1"}
    _same(table.metadata.action.to_json(), json.dumps(metadata))
    _same(table.protocol.action.to_json(), json.dumps(protocol))


def _log_entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/**/_delta_log/*.json"))


def test_actions_of_other_engines(conformance: Path) -> None:
    """Each action of each commit of the conformance tables, and each schema in them, is written back as it was."""
    actions = schemas = 0
    for entry in _log_entries(conformance / "delta"):
        data = entry.read_bytes()
        try:
            lines = [json.loads(line) for line in data.split(b"\n") if line.strip()]
        except ValueError:
            continue
        for line, action in zip(data.decode().split("\n"), read_actions(data), strict=False):
            assert _canonical(action.to_json()) == _canonical(line), entry
            actions += 1
            if action.name in ("metaData", "protocol"):
                _of_table(action)
            text = action.members.get("schemaString") if action.name == "metaData" else None
            if text is not None:
                schemas += 1
                assert SchemaDocument(text).to_json() == text
                assert write_json(read_json(text)) == json.dumps(
                    json.loads(text), ensure_ascii=False, separators=(",", ":")
                )
        assert lines
    assert actions > 1000
    assert schemas > 100


def _of_table(action: LogAction) -> None:
    """Read an action through the text that a replay gives of it."""
    text = write_json(action.members)
    try:
        found = read_metadata(text) if action.name == "metaData" else read_protocol(text)
    except (CorruptLogError, NotImplementedError):
        return
    assert found.action == action
