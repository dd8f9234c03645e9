"""Merging in plain Python: what a merge must do to rows, clause by clause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

__all__ = [
    "CONDITIONS",
    "ON",
    "SETS",
    "Clause",
    "SeveralMatchesError",
    "drawn_clauses",
    "drawn_rows",
    "merged",
    "with_clause",
]

#: A row of the table or of the source: id, name, x.
Row = tuple[Any, Any, Any]
_Test = Callable[[Any, Any], Any]


class SeveralMatchesError(Exception):
    """A row of the table matches several rows of the source."""


def _always(_: Any, __: Any) -> bool:
    return True


def _equal(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a == b


def _less(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a < b


#: Conditions by which rows match, as SQL and as Python.
ON: dict[str, _Test] = {
    "t.id = s.id": lambda t, s: _equal(t[0], s[0]),
    "t.id <=> s.id": lambda t, s: t[0] == s[0],
    "t.id = s.id AND t.name = s.name": lambda t, s: _equal(t[0], s[0]) and _equal(t[1], s[1]),
    "s.id = t.id AND t.x > 1": lambda t, s: _equal(t[0], s[0]) and _less(1, t[2]),
    "t.id = s.id AND s.x < t.x": lambda t, s: _equal(t[0], s[0]) and _less(s[2], t[2]),
    "t.id < s.id AND t.name = 'a'": lambda t, s: _less(t[0], s[0]) and t[1] == "a",
    "t.id + 1 = s.id": lambda t, s: None if t[0] is None else _equal(t[0] + 1, s[0]),
}
#: Conditions of clauses, by the kind of clause.
CONDITIONS: dict[str, dict[str | None, _Test]] = {
    "matched": {
        None: _always,
        "t.x > s.x": lambda t, s: _less(s[2], t[2]),
        "s.name = 'a'": lambda _, s: _equal(s[1], "a"),
        "t.name IS NULL": lambda t, _: t[1] is None,
    },
    "not matched": {
        None: _always,
        "s.x < 2": lambda _, s: _less(s[2], 2),
        "name = 'b'": lambda _, s: _equal(s[1], "b"),
    },
    "not matched by source": {
        None: _always,
        "t.id > 2": lambda t, _: _less(2, t[0]),
        "x = 1": lambda t, _: _equal(t[2], 1),
    },
}
#: New values by the action, as the dict of a clause and as Python; None takes all columns of the source.
SETS: dict[str, list[tuple[dict[str, Any] | None, Callable[[Any, Any], Row]]]] = {
    "matched": [
        (None, lambda _, s: s),
        ({"x": "s.x"}, lambda t, s: (t[0], t[1], s[2])),
        ({"t.name": "t.name", "x": "t.x + s.id"}, lambda t, s: (*t[:2], _sum(t[2], s[0]))),
        ({"id": "s.id", "name": "'new'"}, lambda t, s: (s[0], "new", t[2])),
    ],
    "not matched": [
        (None, lambda _, s: s),
        ({"id": "s.id", "x": "s.x + 1"}, lambda _, s: (s[0], None, _sum(s[2], 1))),
        ({"name": "'inserted'"}, lambda _, __: (None, "inserted", None)),
    ],
    "not matched by source": [
        ({"name": "'gone'"}, lambda t, _: (t[0], "gone", t[2])),
        ({"x": "t.x + 10", "name": "NULL"}, lambda t, _: (t[0], None, _sum(t[2], 10))),
    ],
}


def _sum(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


@dataclass(frozen=True)
class Clause:
    """A clause: its kind, its action, its condition, and the number of its new values in `SETS`."""

    when: str
    action: str
    condition: str | None = None
    values: int = 0

    def holds(self, t: Any, s: Any) -> bool:
        return CONDITIONS[self.when][self.condition](t, s) is True

    def new(self, t: Any, s: Any) -> Row:
        return SETS[self.when][self.values][1](t, s)


def merged(target: Sequence[Row], source: Sequence[Row], on: str, clauses: Sequence[Clause]) -> list[Row]:
    """Return the rows of a table after a merge.

    Raises
    ------
    SeveralMatchesError
        A row of the table matches several rows of the source.
    """
    matches = ON[on]
    matched = [clause for clause in clauses if clause.when == "matched"]
    is_lone_delete = [(clause.action, clause.condition) for clause in matched] == [("delete", None)]
    after: list[Row] = []
    used: set[int] = set()
    for t in target:
        matching = [number for number, s in enumerate(source) if matches(t, s) is True]
        used.update(matching)
        counted = matching
        if len(matched) == len(clauses):
            counted = [number for number in matching if any(clause.holds(t, source[number]) for clause in matched)]
        if matched and len(counted) > 1 and not is_lone_delete:
            raise SeveralMatchesError
        kind = "matched" if matching else "not matched by source"
        s = source[(counted or matching)[0]] if matching else None
        clause = next((one for one in clauses if one.when == kind and one.holds(t, s)), None)
        if clause is None:
            after.append(t)
        elif clause.action == "update":
            after.append(clause.new(t, s))
    for number, s in enumerate(source):
        if number not in used:
            clause = next((one for one in clauses if one.when == "not matched" and one.holds(None, s)), None)
            if clause is not None:
                after.append(clause.new(None, s))
    return after


def with_clause(builder: Any, clause: Clause) -> Any:
    """Add a clause of the model to a merge."""
    name = f"when_{clause.when.replace(' ', '_')}_{clause.action}"
    if clause.action == "delete":
        return getattr(builder, name)(clause.condition)
    values = SETS[clause.when][clause.values][0]
    if values is None:
        return getattr(builder, f"{name}_all")(clause.condition)
    return getattr(builder, name)(values, clause.condition)


def drawn_clauses(draw: Random) -> list[Clause]:
    """Draw clauses: of each kind those with a condition first."""
    clauses: list[Clause] = []
    for kind, actions in (("matched", ("update", "delete")), ("not matched", ("insert",))):
        clauses += _clauses_of(draw, kind, actions)
    if draw.random() < 0.4:
        clauses += _clauses_of(draw, "not matched by source", ("update", "delete"))
    return clauses or [Clause("matched", "delete")]


def _clauses_of(draw: Random, kind: str, actions: tuple[str, ...]) -> list[Clause]:
    known = [condition for condition in CONDITIONS[kind] if condition is not None]
    conditions: list[str | None] = [*draw.sample(known, draw.randint(0, 2))]
    if draw.random() < 0.6:
        conditions.append(None)
    return [Clause(kind, draw.choice(actions), condition, draw.randrange(len(SETS[kind]))) for condition in conditions]


def drawn_rows(draw: Random, most: int, *, unique: bool) -> list[Row]:
    keys = draw.sample([*range(12), None], min(most, 13)) if unique else [draw.randint(0, 8) for _ in range(most)]
    return [(key, draw.choice(["a", "b", None]), draw.choice([None, 0, 1, 2, 3])) for key in keys]
