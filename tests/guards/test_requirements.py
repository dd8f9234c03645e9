"""Marks of requirements: what they claim, what a run of them proves, and when ``make requirements`` fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import requirements
from tests.support.claims import CLAIMS, Claims, find_faults, find_unproven
from tests.support.proofs import Proof, Proofs, halves_of_mark, read_proofs, write_proofs
from tests.support.requirements import Requirement, load_requirements, read_requirements
from tests.support.road_claims import NEED_NO_SPARK, find_road_faults, roads_of_rows

pytest_plugins = "pytester"
pytestmark = pytest.mark.one_backend

_TEXT = """
| id | requirement | who | how a test proves it |
|---|---|---|---|
| DL-DV-01 | Both must. | both | `a | b` parses. |
| DL-DV-02 | Writers must. | writer | So. |
| ICE-TRF-01 | Readers must. | reader | So. |
| BEY-01 | Whoever. | nobody | So. |
"""
_ROWS = read_requirements(_TEXT)
_BOTH, _WRITER, _READER = "DL-DV-01", "DL-DV-02", "ICE-TRF-01"
_NONE = Claims(frozenset(), {})


def _proof(requirement: str, half: str, outcome: str = "passed", test: str = "t") -> Proof:
    return Proof(requirement, half, outcome, test)


def _unproven(*proofs: Proof) -> list[tuple[str, str]]:
    return [(one.row.id, one.half) for one in find_unproven(_ROWS, proofs)]


def _faults(claims: Claims, *proofs: Proof) -> list[str]:
    return find_faults(_ROWS, find_unproven(_ROWS, proofs), claims)


_PROVEN_BY_READERS = (_proof(_BOTH, "reader"), _proof(_READER, "reader"))


def test_rows_are_read() -> None:
    assert list(_ROWS) == [_BOTH, _WRITER, _READER]
    assert _ROWS[_BOTH] == Requirement(_BOTH, "Both must.", "both", "`a | b` parses.")
    assert _ROWS[_BOTH].area == "DL-DV"
    assert [row.halves for row in _ROWS.values()] == [("reader", "writer"), ("writer",), ("reader",)]


def test_marks_claim_one_half() -> None:
    assert halves_of_mark([_BOTH], {"half": "writer"}, _ROWS) == [(_BOTH, "writer")]
    assert halves_of_mark([_WRITER], {}, _ROWS) == [(_WRITER, "writer")]
    assert halves_of_mark([_WRITER, _READER], {}, _ROWS) == [(_WRITER, "writer"), (_READER, "reader")]
    assert halves_of_mark([_BOTH, _READER], {"half": "reader"}, _ROWS) == [(_BOTH, "reader"), (_READER, "reader")]


@pytest.mark.parametrize(
    ("ids", "arguments", "message"),
    [
        ((_BOTH,), {}, "is a row for readers and writers: say half="),
        ((_BOTH,), {"half": "both"}, "for readers and writers, not for 'both'"),
        ((_WRITER,), {"half": "reader"}, "DL-DV-02 is a row for writers, not for 'reader'"),
        ((_READER, _WRITER), {"half": "reader"}, "DL-DV-02 is a row for writers"),
        (("DL-DV-99",), {"half": "reader"}, "there is no requirement DL-DV-99"),
        ((1,), {}, "there is no requirement 1"),
        ((), {"half": "reader"}, "one or more rows"),
        ((_READER,), {"hafl": "reader"}, "one or more rows"),
    ],
)
def test_marks_that_are_refused(ids: tuple[object, ...], arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        halves_of_mark(ids, arguments, _ROWS)


_TESTS = """
import pytest

@pytest.fixture
def broken():
    raise RuntimeError

@pytest.fixture
def broken_afterwards():
    yield
    raise RuntimeError

@pytest.fixture
def absent():
    pytest.skip("no server")

@pytest.mark.req("DL-DV-01", half="reader")
@pytest.mark.req("DL-DV-02")
def test_passes(): pass

@pytest.mark.req("ICE-TRF-01")
def test_fails(): assert False

@pytest.mark.req("ICE-TRF-01")
def test_fails_before(broken): pass

@pytest.mark.req("ICE-TRF-01")
def test_fails_after(broken_afterwards): pass

@pytest.mark.req("ICE-TRF-01")
def test_skips(): pytest.skip("not here")

@pytest.mark.req("ICE-TRF-01")
def test_skips_before(absent): pass

@pytest.mark.req("ICE-TRF-01")
@pytest.mark.skipif(True, reason="never")
def test_is_skipped(): pass

@pytest.mark.req("ICE-TRF-01")
@pytest.mark.xfail(reason="known")
def test_fails_as_expected(): assert False

@pytest.mark.req("ICE-TRF-01")
@pytest.mark.xfail(reason="known", strict=False)
def test_passes_unexpectedly(): pass

def test_carries_no_mark(): pass
"""


def test_only_tests_that_pass_prove(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_marked=_TESTS)
    target = pytester.path / "folder" / "results.json"
    pytester.inline_run("-p", "no:cacheprovider", plugins=[Proofs(_ROWS, target)])
    proofs = read_proofs(target)
    outcomes = {proof.test.rpartition("::")[2]: proof.outcome for proof in proofs}
    assert outcomes == {
        "test_passes": "passed",
        **dict.fromkeys(("test_fails", "test_fails_before", "test_fails_after"), "failed"),
        **dict.fromkeys(("test_skips", "test_skips_before", "test_is_skipped"), "skipped"),
        **dict.fromkeys(("test_fails_as_expected", "test_passes_unexpectedly"), "skipped"),
    }
    claimed = [(proof.requirement, proof.half) for proof in proofs if proof.test.endswith("test_passes")]
    assert sorted(claimed) == [(_BOTH, "reader"), (_WRITER, "writer")]


def test_a_mark_that_claims_nothing_fails_the_collection(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_marked='import pytest\n@pytest.mark.req("DL-DV-01")\ndef test_one(): pass')
    options = ("-p", "no:cacheprovider")
    assert pytester.inline_run(*options, plugins=[Proofs(_ROWS)]).ret == pytest.ExitCode.USAGE_ERROR
    # Without the shared folder there is nothing to check marks against.
    assert pytester.inline_run(*options, plugins=[Proofs({})]).ret == pytest.ExitCode.OK


def test_a_half_is_proven_by_a_test_of_that_half() -> None:
    assert _unproven() == [(_BOTH, "reader"), (_BOTH, "writer"), (_WRITER, "writer"), (_READER, "reader")]
    assert _unproven(*_PROVEN_BY_READERS) == [(_BOTH, "writer"), (_WRITER, "writer")]
    assert _unproven(*_PROVEN_BY_READERS, _proof(_BOTH, "writer"), _proof(_WRITER, "writer")) == []


def test_a_failing_test_takes_back_what_others_prove() -> None:
    skipped, failed = _proof(_READER, "reader", "skipped", "s"), _proof(_READER, "reader", "failed", "f")
    assert (_READER, "reader") in _unproven(skipped)
    assert (_READER, "reader") not in _unproven(skipped, *_PROVEN_BY_READERS)
    assert (_READER, "reader") in _unproven(*_PROVEN_BY_READERS, failed)
    assert (_BOTH, "reader") not in _unproven(*_PROVEN_BY_READERS, failed)


def test_nothing_is_wrong_where_claims_are_what_is_proven() -> None:
    assert _faults(_NONE, *_PROVEN_BY_READERS) == []
    assert _faults(Claims(frozenset([_WRITER]), {}), *_PROVEN_BY_READERS, _proof(_WRITER, "writer")) == []
    excepted = Claims(frozenset(["DL-DV"]), {(_BOTH, "writer"): "later"})
    assert _faults(excepted, *_PROVEN_BY_READERS, _proof(_WRITER, "writer")) == []


def test_a_claimed_half_without_a_proof_is_a_fault() -> None:
    assert _faults(_NONE, _proof(_BOTH, "reader")) == ["ICE-TRF-01 (reader) is claimed, but no test proves it"]
    failed = _proof(_READER, "reader", "failed", "a.py::t")
    skipped = _proof(_READER, "reader", "skipped", "b.py::t")
    assert _faults(_NONE, *_PROVEN_BY_READERS, failed) == ["ICE-TRF-01 (reader) is claimed, but a.py::t failed"]
    assert _faults(_NONE, _proof(_BOTH, "reader"), skipped) == ["ICE-TRF-01 (reader) is claimed, but b.py::t skipped"]
    assert _faults(Claims(frozenset(["DL-DV"]), {}), *_PROVEN_BY_READERS) == [
        "DL-DV-01 (writer) is claimed, but no test proves it",
        "DL-DV-02 (writer) is claimed, but no test proves it",
    ]


def test_claims_that_are_behind_the_proofs_are_faults() -> None:
    assert _faults(Claims(frozenset(), {(_READER, "reader"): "later"}), *_PROVEN_BY_READERS) == [
        "ICE-TRF-01 (reader) is proven: remove it from the exceptions"
    ]
    assert _faults(_NONE, *_PROVEN_BY_READERS, _proof(_WRITER, "writer")) == [
        "DL-DV-02 (writer) is proven, and is not claimed: add it to the claims"
    ]
    assert _faults(Claims(frozenset(), {(_WRITER, "writer"): "later"}), *_PROVEN_BY_READERS) == [
        "DL-DV-02 (writer) is an exception, and is not claimed: remove it from the exceptions"
    ]


def test_claims_of_no_row_are_faults() -> None:
    claims = Claims(frozenset(["ICE-TRF", "DL-XX-01"]), {("DL-DV-02", "reader"): "a row for writers"})
    assert sorted(_faults(claims, *_PROVEN_BY_READERS)) == [
        "DL-DV-02 (reader) is an exception, and no row",
        "DL-XX-01 is claimed for writers, and no row or area of theirs",
        "ICE-TRF is claimed for writers, and no row or area of theirs",
    ]


def _on_spark(*proofs: Proof) -> tuple[Proof, ...]:
    return tuple(proof._replace(road="spark") for proof in proofs)


_ON_BOTH = (*_PROVEN_BY_READERS, *_on_spark(*_PROVEN_BY_READERS))


def test_rows_of_readers_are_proven_on_roads() -> None:
    assert roads_of_rows(_ROWS, []) == {_BOTH: (), _READER: ()}
    assert roads_of_rows(_ROWS, _PROVEN_BY_READERS) == {_BOTH: ("local",), _READER: ("local",)}
    assert roads_of_rows(_ROWS, _ON_BOTH) == {_BOTH: ("local", "spark"), _READER: ("local", "spark")}
    writer = _on_spark(_proof(_BOTH, "writer"))
    assert roads_of_rows(_ROWS, [*_PROVEN_BY_READERS, *writer])[_BOTH] == ("local",)


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_road_on_which_a_test_fails_proves_nothing(outcome: str) -> None:
    (other,) = _on_spark(_proof(_READER, "reader", outcome, "other"))
    assert roads_of_rows(_ROWS, [*_PROVEN_BY_READERS, other])[_READER] == ("local",)
    found = roads_of_rows(_ROWS, [*_ON_BOTH, other])[_READER]
    assert found == (("local",) if outcome == "failed" else ("local", "spark"))


def test_a_row_that_one_road_alone_proves_is_a_fault() -> None:
    assert find_road_faults(_ROWS, _ON_BOTH, {}) == []
    # What no test proves is a fault of the claims.
    assert find_road_faults(_ROWS, [], {}) == []
    assert find_road_faults(_ROWS, _PROVEN_BY_READERS, {}) == [
        "DL-DV-01 is proven on one machine alone, and not on Spark",
        "ICE-TRF-01 is proven on one machine alone, and not on Spark",
    ]
    assert find_road_faults(_ROWS, _PROVEN_BY_READERS, {"no rows": [_BOTH, _READER]}) == []
    assert find_road_faults(_ROWS, [_ON_BOTH[0], *_ON_BOTH[2:]], {}) == [
        "ICE-TRF-01 is proven on Spark alone, and not on one machine"
    ]


def test_rows_that_need_no_spark_are_rows_that_spark_does_not_prove() -> None:
    assert find_road_faults(_ROWS, _ON_BOTH, {"no rows": [_READER]}) == [
        "ICE-TRF-01 is proven on Spark: remove it from the rows that need no Spark"
    ]
    assert find_road_faults(_ROWS, _PROVEN_BY_READERS, {"no rows": [_BOTH, _READER], "twice": [_BOTH, _WRITER]}) == [
        "DL-DV-02 needs no Spark, and is no row of readers",
        "DL-DV-01 is listed twice as needing no Spark",
    ]


def test_a_run_tells_on_which_road_a_test_is(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.req("DL-DV-01", half="reader")
        @pytest.mark.parametrize("road", ["local", pytest.param("spark", marks=pytest.mark.spark)])
        def test_rows(road): pass
        """
    )
    plugin = Proofs(_ROWS)
    pytester.inline_run("-p", "no:cacheprovider", plugins=[plugin])
    assert [(proof.test[-7:], proof.road) for proof in plugin.proofs()] == [("[local]", "local"), ("[spark]", "spark")]


def test_runs_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(requirements, "load_requirements", lambda: _ROWS)
    files = [tmp_path / "native.json", tmp_path / "python.json"]
    write_proofs(files[0], _PROVEN_BY_READERS[:1])
    write_proofs(files[1], _PROVEN_BY_READERS[1:])
    options = [option for file in files for option in ("--results", str(file))]
    # The claims of this project name rows that the document of this test lacks.
    monkeypatch.setattr(requirements, "find_faults", lambda known, unproven: find_faults(known, unproven, _NONE))
    monkeypatch.setattr(
        requirements, "find_road_faults", lambda known, proofs: find_road_faults(known, proofs, {"no rows": [_READER]})
    )
    assert requirements.main(options[:2]) == 1
    assert "ICE-TRF-01 (reader) is claimed" in capsys.readouterr().out
    assert requirements.main(options) == 1
    assert "DL-DV-01 is proven on one machine alone" in capsys.readouterr().out
    write_proofs(files[1], [*_PROVEN_BY_READERS[1:], *_on_spark(_proof(_BOTH, "reader"))])
    assert requirements.main(options) == 0
    last = "2 of 4 halves are proven; 1 of 2 rows of readers are proven on both roads; 0 faults of the claims"
    alone = "proven on one machine alone: ICE-TRF-01"
    assert capsys.readouterr().out.splitlines() == ["DL-DV: DL-DV-01 (writer), DL-DV-02", alone, last]
    assert requirements.main([*options, "--half", "reader", "--area", "DL-DV"]) == 0
    assert capsys.readouterr().out.splitlines() == [last]
    assert requirements.main([*options, "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == [last]


def test_the_claims_of_this_project_name_rows() -> None:
    rows = load_requirements()
    if not rows:
        pytest.skip("the shared folder is missing")
    nothing = find_faults(rows, find_unproven(rows, []))
    assert nothing
    assert all(" is claimed, but no test proves it" in fault for fault in nothing)
    assert all(CLAIMS.exceptions.values())
    assert all(map(str.strip, NEED_NO_SPARK))
    assert find_road_faults(rows, []) == []
