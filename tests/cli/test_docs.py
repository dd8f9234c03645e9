"""The examples of docs/cli.md print what it says they print."""

from __future__ import annotations

import datetime as dt
import re
import shlex
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.command_line import call
from tests.support.delta_builder import DeltaBuilder
from tests.support.iceberg_builder import IcebergBuilder

pytestmark = pytest.mark.one_backend

_DOCS = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
_MILLIS = 1_767_225_600_000  # 2026-01-01


def build_orders(builder: DeltaBuilder) -> None:
    """Make the table of the examples."""
    schema = pa.schema(
        [("id", pa.int64()), ("day", pa.date32()), ("price", pa.decimal128(9, 2)), ("region", pa.string())]
    )

    def rows(first: int, count: int) -> pa.Table:
        numbers = range(first, first + count)
        days = [dt.date(2026, 1, 1) + dt.timedelta(days=number // 10) for number in numbers]
        prices = [Decimal(number * 37 % 10_000) / 100 for number in numbers]
        return pa.table({"id": list(numbers), "day": days, "price": prices}, schema=schema.remove(3))

    north = builder.add(rows(0, 400), path="region=north/a.parquet", partition={"region": "north"}, stats="full")
    south = builder.add(rows(400, 300), path="region=south/b.parquet", partition={"region": "south"}, stats="full")
    late = builder.add(rows(700, 300), path="region=south/c.parquet", partition={"region": "south"}, stats="full")
    deleted = {"add": {**late["add"], "deletionVector": builder.vector(range(0, 300, 60), "i")}}
    protocol, properties = builder.features("deletionVectors"), {"delta.enableDeletionVectors": "true"}
    metadata = builder.metadata(schema, ["region"], properties, name="orders")
    for number, (operation, actions) in enumerate(
        [
            ("CREATE TABLE", [protocol, metadata, north, south]),
            ("WRITE", [late]),
            ("DELETE", [builder.remove(late), deleted]),
        ]
    ):
        info = {"operation": operation, "userName": "ann", "engineInfo": "spark 4.1"}
        builder.commit(*actions, info=info, millis=_MILLIS + number * 3_600_000)
        if number == 1:
            builder.checkpoint()


def build_events(folder: Path) -> IcebergBuilder:
    """Make the Iceberg table of the examples."""
    days = [{"source-id": 2, "name": "at_day", "transform": "day"}]
    builder = IcebergBuilder(folder, {"id": "long", "at": "timestamptz"}, specs=[days])
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
    data = builder.data([{"id": number, "at": noon} for number in range(4)], partition={"at_day": noon.date()})
    builder.commit(data)
    builder.commit(builder.position_deletes([(data, 2)]), operation="delete")
    return builder


def _examples() -> list[tuple[str, str]]:
    """Return the commands with what they print."""
    blocks = re.findall(r"^```\n(\$ .*?)^```", _DOCS.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [(line, output) for line, _, output in (block.partition("\n") for block in blocks)]


def _without_sizes(text: str) -> str:
    """Leave out what depends on the version of the Parquet writer, and on the kernels in use."""
    text = re.sub(r"\d+(\.\d+)? (bytes|B|KiB)\b", "N bytes", text)
    text = re.sub(r'("file_size_in_bytes": |\tparquet\t)\d+', r"\1N", text)
    return re.sub(r"^(kernels:).*", r"\1", text, flags=re.MULTILINE)


def test_every_command_has_an_example() -> None:
    shown = {line.split()[2] for line, _ in _examples()}
    assert shown >= {"inspect", "schema", "history", "files", "plan", "count", "head", "changes"}


@pytest.mark.parametrize(("line", "output"), _examples(), ids=[line for line, _ in _examples()])
def test_examples_print_what_is_shown(builder: DeltaBuilder, tmp_path: Path, line: str, output: str) -> None:
    prompt, program, *arguments = shlex.split(line)
    assert (prompt, program) == ("$", "deltaberg")
    if "orders" in arguments:
        build_orders(builder)
        places = {"orders": str(builder.root)}
    else:
        places = {"events": str(build_events(tmp_path / "events").root)}
    ended = call(*(places.get(argument, argument) for argument in arguments))
    found = ended.stdout + ended.stderr
    for name, place in places.items():
        found = found.replace(place, f"/data/{name}")
    assert _without_sizes(found) == _without_sizes(output)
