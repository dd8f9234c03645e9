"""Numbers in the text of logs and files that are none, or that have more digits than Python reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptDataFileError, CorruptLogError, UnsupportedFeatureError
from deltaberg.schema.name_mapping import FIELD_ID, field_id
from deltaberg.schema.variants.values import encode_string, object_fields, variant_to_json
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_schemas import field
from tests.support.rows import ID, ids, ids_of

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize(
    "kind", [f"decimal({'1' * 5000},0)", "decimal(²,0)", f"decimal(1,{'0' * 5000})", "decimal(a,b)"]
)
def test_decimals_of_too_many_digits(builder: DeltaBuilder, kind: str) -> None:
    builder.create([field("x", kind)])
    with pytest.raises(UnsupportedFeatureError, match=r"the type decimal\("):
        str(open_table(builder.root).schema)
    widened = field("x", "decimal(9,2)", delta__typeChanges=[{"fromType": kind, "toType": "decimal(9,2)"}])
    builder.commit(builder.metadata([widened]), builder.features("typeWidening"))
    with pytest.raises(UnsupportedFeatureError, match=r"a type change from decimal\("):
        open_table(builder.root).scan().count()


@pytest.mark.parametrize("version", ["²", "9" * 5000, "x", ""])
def test_versions_since_when_times_are_recorded(builder: DeltaBuilder, version: str) -> None:
    properties = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": version,
    }
    builder.create(
        ID,
        builder.add(ids(1)),
        configuration=properties,
        protocol=builder.features(writer_only=["inCommitTimestamp"]),
    )
    table = open_table(builder.root)
    assert ids_of(table) == [1]
    with pytest.raises(CorruptLogError, match="the commit records none"):
        table.history()


def test_ids_of_columns_that_are_no_numbers() -> None:
    with pytest.raises(CorruptDataFileError, match="not a number"):
        field_id(pa.field("a", pa.int64(), metadata={FIELD_ID: "x"}))


def test_a_variant_whose_parts_overlap_is_refused() -> None:
    """A few hundred bytes could stand for a tree of more values than there is memory."""
    value = encode_string("a")
    for _ in range(60):
        # An array of two items, both of which begin at the first byte behind the offsets.
        value = bytes([3 | 3 << 2, 2]) + b"".join(number.to_bytes(4, "little") for number in (0, 0, len(value))) + value
    with pytest.raises(CorruptDataFileError, match="overlap"):
        variant_to_json(b"\x01\x00\x00", value)
    twice = bytes([2, 2, 0, 0, 0, 0, 2]) + encode_string("x")
    with pytest.raises(CorruptDataFileError, match="overlap"):
        object_fields(twice, ["a"])
