"""Each verb that takes rows takes a DataFrame with all of its arguments, as it takes a table of Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import create_table
from tests.support.verb_table import PLACES, Place, all_right

pytestmark = pytest.mark.spark

_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


@pytest.mark.parametrize("verb", ["append", "overwrite", "merge", "upsert"])
@pytest.mark.parametrize("place", [place for place in PLACES if not place.in_transaction], ids=str)
def test_every_argument_beside_a_frame(spark: Any, tmp_path: Path, place: Place, verb: str) -> None:
    create: Any = create_table
    outcomes = []
    for name in ("here", "there"):
        table = create(tmp_path / name, _SCHEMA, format=place.format, partition_by="p")
        table.append(pa.table({"id": [1, 2], "p": ["a", "b"]}, _SCHEMA))
        given = all_right(verb, place)
        rows = "source" if verb == "merge" else "data"
        if name == "there":
            given[rows] = spark.createDataFrame(given[rows].to_pylist(), "id bigint, p string")
        done = getattr(table, verb)(**given)
        if verb == "merge":
            done = done.when_matched_update_all().when_not_matched_insert_all().execute()
        counts = (done.inserted_rows, done.updated_rows, done.deleted_rows)
        outcomes.append((counts, sorted(table.scan().to_arrow().to_pylist(), key=str)))
    assert outcomes[0] == outcomes[1]
