"""Partition values: native and Python agree on every type and any text."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.errors import InvalidArgumentError, InvalidPartitionValueError
from tests.kernels.scalar_texts import ODD_TEXTS, PRIMITIVES, texts
from tests.kernels.twins import Raised, twins
from tests.support.effort import examples

_MAP = pa.map_(pa.string(), pa.string())


@examples(400)
@given(st.sampled_from(PRIMITIVES).flatmap(lambda name: st.tuples(st.just(name), texts(name))))
def test_one_value(case: tuple[str, str]) -> None:
    primitive, text = case
    text = text.encode("utf-8", "replace").decode()
    maps = pa.array([[("p", text)]], _MAP)
    found = twins(lambda kernels: kernels.parse_partition_values(maps, [("p", primitive)]))
    if isinstance(found, Raised):
        assert found.kind is InvalidPartitionValueError
        assert found.context == {"column": "p", "row": "0"}


@examples(50)
@given(ODD_TEXTS, ODD_TEXTS)
def test_odd_texts_in_messages(text: str, name: str) -> None:
    """Control characters are escaped, so that no terminal obeys what a log holds."""
    found = twins(
        lambda kernels: kernels.parse_partition_values(pa.array([[(name, f"{text}!")]], _MAP), [(name, "long")])
    )
    assert isinstance(found, Raised)
    assert not any(unicodedata.category(letter) == "Cc" for letter in found.message)


_ROWS = st.lists(
    st.none()
    | st.lists(
        st.tuples(st.sampled_from(["p", "q", "ü", ""]), st.none() | st.sampled_from(["", "1", "2020-01-01", "true"])),
        max_size=3,
        unique_by=lambda pair: pair[0],
    ),
    max_size=6,
)
_COLUMNS = st.lists(
    st.tuples(
        st.sampled_from(["p", "q", "ü", "absent"]), st.sampled_from([*PRIMITIVES, "decimal(39,0)", "int", "void"])
    ),
    max_size=3,
)


@examples(200)
@given(_ROWS, _COLUMNS, st.integers(0, 2))
def test_columns(rows: list[list[tuple[str, str | None]] | None], columns: list[tuple[str, str]], skip: int) -> None:
    maps = pa.array(rows, _MAP)[skip:]
    outcome = twins(lambda kernels: kernels.parse_partition_values(maps, columns))
    if isinstance(outcome, Raised):
        assert outcome.kind in (InvalidPartitionValueError, InvalidArgumentError)
        return
    assert outcome.num_rows == len(maps)
    assert outcome.schema.names == [name for name, _ in columns]
