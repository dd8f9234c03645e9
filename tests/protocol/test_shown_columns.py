"""What columns say beyond their type, as tables show it (DL-CON, DL-CLU)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptLogError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_opened import opened
from tests.support.delta_schemas import field, struct_type
from tests.support.roads import Road
from tests.support.rows import ID, ids


@pytest.mark.req("DL-CON-04", half="reader")
def test_invariants_are_shown(builder: DeltaBuilder) -> None:
    text = json.dumps({"expression": {"expression": "x > 3"}})
    inner = struct_type(field("y", "long", delta__invariants=json.dumps({"expression": {"expression": "s.y < 0"}})))
    table = opened(builder, [field("x", "integer", delta__invariants=text), field("s", inner)])
    assert table.invariants == {"x": "x > 3", "s.y": "s.y < 0"}


@pytest.mark.req("DL-CON-08", half="reader")
def test_check_constraints_are_shown(builder: DeltaBuilder) -> None:
    configuration = {"delta.constraints.birthDateCheck": "birthDate > '1900-01-01'", "delta.appendOnly": "true"}
    table = opened(builder, ID, configuration=configuration, protocol=builder.protocol(1, 3))
    assert table.check_constraints == {"birthDateCheck": "birthDate > '1900-01-01'"}


@pytest.mark.req("DL-CON-14", half="reader")
def test_generated_columns_are_shown(builder: DeltaBuilder) -> None:
    columns = [field("Ts", "timestamp"), field("y", "integer", delta__generationExpression="year(ts)")]
    columns.append(field("m", "integer", delta__generationExpression="MONTH(`Ts`)"))
    table = opened(builder, columns, protocol=builder.protocol(1, 4))
    assert table.generated_columns == {"y": "year(ts)", "m": "MONTH(`Ts`)"}


@pytest.mark.req("DL-CON-16", half="reader")
@pytest.mark.req("DL-CON-18")
def test_defaults_are_shown_and_not_read(builder: DeltaBuilder, road: Road) -> None:
    columns = [field("id", "long"), field("c", "integer", CURRENT_DEFAULT="42")]
    protocol = builder.protocol(1, 7, None, ["allowColumnDefaults"])
    table = opened(builder, columns, builder.add(ids(1)), protocol=protocol)
    assert table.column_defaults == {"c": "42"}
    assert road.rows(table.scan()) == [{"id": 1, "c": None}]
    assert table.scan("c = 42").count() == 0


@pytest.mark.req("DL-CON-21", half="reader")
def test_identity_columns_are_shown(builder: DeltaBuilder) -> None:
    identity = {
        "delta.identity.start": 10,
        "delta.identity.step": 5,
        "delta.identity.allowExplicitInsert": False,
    }
    column = {"name": "id", "type": "long", "nullable": True, "metadata": identity}
    table = opened(builder, [column], protocol=builder.protocol(1, 6))
    declared = table.identity_columns["id"]
    assert (declared.start, declared.step, declared.allow_explicit_insert, declared.high_water_mark) == (
        10,
        5,
        False,
        None,
    )
    more = {"delta.identity.highWaterMark": 2**53 + 1, "delta.identity.allowExplicitInsert": True}
    column["metadata"] = {**identity, **more}
    builder.commit(builder.metadata([column]))
    declared = open_table(builder.root, "delta").identity_columns["id"]
    assert (declared.high_water_mark, declared.allow_explicit_insert) == (2**53 + 1, True)


@pytest.mark.req("DL-CLU-02", "DL-CLU-03", half="reader")
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            ["col-daadafd7-7c20-4697-98f8-bff70199b1f9", "col-5abe0e80-cf57-47ac-9ffc-a861a3d1077e"],
            [("col-daadafd7-7c20-4697-98f8-bff70199b1f9",), ("col-5abe0e80-cf57-47ac-9ffc-a861a3d1077e",)],
        ),
        (["a"], [("a",)]),
        ([["a"], ["s", "x"]], [("a",), ("s", "x")]),
        ([], []),
    ],
)
def test_clustering_columns(builder: DeltaBuilder, columns: Any, expected: list[tuple[str, ...]]) -> None:
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": columns}),
        "removed": False,
    }
    protocol = builder.protocol(1, 7, None, ["clustering", "domainMetadata"])
    table = opened(builder, ID, {"domainMetadata": domain}, protocol=protocol)
    assert table.clustering_columns == expected


def test_a_clustering_domain_that_is_none_is_refused(builder: DeltaBuilder) -> None:
    builder.create(ID, protocol=builder.protocol(1, 7, None, ["clustering", "domainMetadata"]))
    for text in (
        "nonsense",
        "[]",
        "{}",
        '{"clusteringColumns":3}',
        '{"clusteringColumns":[3]}',
        '{"clusteringColumns":[[]]}',
    ):
        builder.commit({"domainMetadata": {"domain": "delta.clustering", "configuration": text, "removed": False}})
        with pytest.raises(CorruptLogError, match=r"delta\.clustering"):
            _ = open_table(builder.root, "delta").clustering_columns
