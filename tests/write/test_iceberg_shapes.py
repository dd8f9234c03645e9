"""Shapes in Parquet files of Iceberg tables: well-known binary, and the points that bound it in manifests."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import create_table, open_table
from deltaberg.errors import SchemaError, UnsupportedFeatureError
from deltaberg.iceberg import IcebergTable
from deltaberg.schema.types import Field, Primitive, Struct

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(
        not hasattr(pq.ColumnChunkMetaData, "geo_statistics"), reason="pyarrow before 21 measures no shapes"
    ),
]

_NAN = float("nan")


def _point(*coordinates: float, kind: int = 1) -> bytes:
    return struct.pack(f"<BI{len(coordinates)}d", 1, kind, *coordinates)


def _line(*points: tuple[float, float]) -> bytes:
    return struct.pack("<BII", 1, 2, len(points)) + b"".join(struct.pack("<2d", *point) for point in points)


def _table(root: Path, kind: str, **properties: str) -> IcebergTable:
    columns = Struct((Field("id", Primitive("long")), Field("g", Primitive("binary"), metadata={"type": kind})))
    table: IcebergTable = create_table(
        root, columns, format="iceberg", properties={"format-version": "3", **properties}
    )
    return table


def _bounds(table: IcebergTable) -> list[tuple[Any, ...]]:
    files = table.inspect("files").to_pylist()
    return [tuple(dict(file[f"{side}_bounds"] or ()).get(2) for side in ("lower", "upper")) for file in files]


def _append(table: IcebergTable, *shapes: bytes | None, **more: Any) -> None:
    table.append(pa.table({"id": range(len(shapes)), "g": pa.array(shapes, pa.binary())}), **more)


@pytest.mark.req("BEY-39", half="writer")
def test_geometries_are_bounded_by_points(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "geometry(srid:4326)")
    assert table.metadata.raw["schemas"][-1]["fields"][1]["type"] == "geometry(srid:4326)"
    _append(table, _point(30.0, 10.0))
    point = struct.pack("<dd", 30.0, 10.0)
    assert len(point) == 16
    assert _bounds(table) == [(point, point)]
    _append(table, _line((1.0, -5.0), (7.5, 2.0)), None, _point(-3.0, 0.0))
    corners = struct.pack("<dd", -3.0, -5.0), struct.pack("<dd", 7.5, 2.0)
    assert sorted(_bounds(table)) == sorted([(point, point), corners])
    got = open_table(tmp_path / "t", "iceberg", validate=True).scan().to_arrow()["g"].to_pylist()
    shapes = [_line((1.0, -5.0), (7.5, 2.0)), None, _point(-3.0, 0.0), _point(30.0, 10.0)]
    assert sorted(got, key=str) == sorted(shapes, key=str)
    # Points say nothing about bytes, so that no file is left out for them.
    assert table.scan(f"g = X'{_point(30.0, 10.0).hex()}'").count() == 1


@pytest.mark.req("BEY-39", half="writer")
def test_bounds_have_the_dimensions_of_the_shapes(tmp_path: Path) -> None:
    table = _table(tmp_path / "z", "geometry")
    _append(table, _point(1.0, 2.0, 3.0, kind=1001), _point(0.0, 5.0, -1.0, kind=1001))
    assert _bounds(table) == [(struct.pack("<3d", 0.0, 2.0, -1.0), struct.pack("<3d", 1.0, 5.0, 3.0))]
    table = _table(tmp_path / "m", "geometry")
    _append(table, _point(1.0, 2.0, 9.0, kind=2001))
    ((lower, upper),) = _bounds(table)
    assert (lower, struct.unpack("<4d", lower)[3]) == (upper, 9.0)
    # There is no z.
    assert struct.unpack("<4d", lower)[2] != struct.unpack("<4d", lower)[2]
    table = _table(tmp_path / "zm", "geometry")
    _append(table, _point(1.0, 2.0, 3.0, 4.0, kind=3001))
    assert _bounds(table) == [(struct.pack("<4d", 1.0, 2.0, 3.0, 4.0),) * 2]


@pytest.mark.req("BEY-39", half="writer")
@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param([None, None], id="nulls"),
        pytest.param([_point(_NAN, _NAN)], id="empty"),
        pytest.param([_point(1.0, 2.0), b"\x01\x02"], id="no shape"),
        pytest.param([_point(float("inf"), 2.0)], id="infinite"),
    ],
)
def test_what_has_no_place_has_no_bounds(tmp_path: Path, shapes: list[bytes | None]) -> None:
    table = _table(tmp_path / "t", "geometry")
    _append(table, *shapes)
    assert _bounds(table) == [(None, None)]
    assert table.scan().to_arrow()["g"].to_pylist() == shapes


@pytest.mark.req("BEY-39", half="writer")
def test_the_bounds_of_geographies_and_of_other_metrics_are_left_out(tmp_path: Path) -> None:
    table = _table(tmp_path / "g", "geography")
    _append(table, _point(30.0, 10.0))
    assert _bounds(table) == [(None, None)]
    for mode in ("counts", "none"):
        table = _table(tmp_path / mode, "geometry", **{"write.metadata.metrics.default": mode})
        _append(table, _point(30.0, 10.0))
        assert _bounds(table) == [(None, None)]


@pytest.mark.req("BEY-39", half="writer")
def test_all_row_groups_of_a_file_are_bounded(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", "geometry", **{"write.parquet.row-group-limit": "2"})
    _append(table, *(_point(float(number), float(-number)) for number in range(7)))
    box = struct.pack("<dd", 0.0, -6.0), struct.pack("<dd", 6.0, 0.0)
    assert _bounds(table) == [box]
    table.update({"id": "id + 10"}, "id = 3", strategy="copy-on-write")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 4, 5, 6, 13]
    assert _bounds(table) == [box]


@pytest.mark.req("BEY-39", half="writer")
def test_shapes_need_version_3_and_parquet(tmp_path: Path) -> None:
    columns = Struct((Field("g", Primitive("binary"), metadata={"type": "geometry"}),))
    with pytest.raises(SchemaError, match="format version 2"):
        create_table(tmp_path / "t", columns, format="iceberg")
    with pytest.raises(UnsupportedFeatureError, match="not written to ORC files"):
        _table(tmp_path / "o", "geometry", **{"write.format.default": "orc"})
    table = _table(tmp_path / "p", "geometry")
    with pytest.raises(UnsupportedFeatureError, match="not written to ORC files"):
        table.alter().set({"write.format.default": "orc"})


@pytest.mark.parametrize("kind", ["geometry", "geography"])
def test_no_curve_goes_through_shapes(tmp_path: Path, kind: str) -> None:
    """No filter skips files by bounds that are points, so the order of bytes would bring nothing."""
    table = _table(tmp_path / "t", kind)
    _append(table, _point(30.0, 10.0))
    with pytest.raises(UnsupportedFeatureError, match="z_order_by names a column without statistics"):
        table.compact(z_order_by=["id", "g"])
