"""Small faults that are planted in the package, to see whether a test finds them: mutants. And the blocks of functions.

A mutant replaces a span of one file. Faults are planted only in what functions do when they are called: what runs while
a module is imported is run by every test, so that no test can be named that reaches it.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Block", "Mutant", "blocks_of", "mutants_of"]

_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}
_OPERATORS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.FloorDiv: ast.Mult(),
    ast.Div: ast.Mult(),
    ast.Mod: ast.FloorDiv(),
    ast.LShift: ast.RShift(),
    ast.RShift: ast.LShift(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
}
#: Statements that a mutant leaves out. An assignment to a plain name is none: what reads it later would only fail.
_REMOVED = (ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
#: What holds no code of a call: names of types, and texts whose parts Python places only since version 3.12.
_LEFT_ALONE = (ast.JoinedStr, ast.pattern, ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)


class Mutant(NamedTuple):
    """A span of a file, in characters, and what stands in its place."""

    file: str
    line: int
    start: int
    end: int
    replacement: str

    def applied(self, source: str) -> str:
        """Return the text of the file with this fault."""
        return source[: self.start] + self.replacement + source[self.end :]

    def diff(self, source: str) -> str:
        """Return the change as lines, with no context."""
        before, after = source.splitlines(), self.applied(source).splitlines()
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))
        return "\n".join(lines[3:])


class Block(NamedTuple):
    """Statements of a function that run one after the other once the first of them does: a span, in characters.

    A probe stands where the first of them begins, or around the expression that it evaluates first.
    """

    start: int
    end: int
    probe_start: int
    probe_end: int

    def probed(self, call: str) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return what is inserted, and where, so that ``call`` is made when the block begins."""
        if self.probe_start == self.probe_end:
            return (self.probe_start, f"{call}; "), (self.probe_end, "")
        return (self.probe_start, f"({call} or ("), (self.probe_end, "))")


class _Places:
    """Finds the nodes of a syntax tree in the text."""

    def __init__(self, source: str) -> None:
        self._lines = source.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._place(node.lineno, node.col_offset), self._place(node.end_lineno, node.end_col_offset)

    def _place(self, line: int, column: int) -> int:
        # The columns of the syntax tree count the bytes of UTF-8.
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def mutants_of(root: Path, file: str) -> Iterator[Mutant]:
    """Return all mutants of one Python file, in the order of its text."""
    source = (root / file).read_text("utf-8")
    places = _Places(source)
    for node, replacement in _changes(ast.parse(source)):
        start, end = places.span(node)
        text = ast.unparse(replacement)
        yield Mutant(file, node.lineno, start, end, text if isinstance(node, ast.stmt) else f"({text})")


def blocks_of(source: str) -> list[Block]:
    """Return the blocks of all functions of a file, the outer ones first."""
    places = _Places(source)
    blocks = []
    for statements in _bodies(ast.parse(source), within=False):
        start, end = places.span(statements[0])[0], places.span(statements[-1])[1]
        # What is written as ``elif`` is no block of its own: no statement can stand before it.
        first = None if source.startswith("elif", start) else _first(statements)
        if isinstance(first, ast.expr):
            blocks.append(Block(start, end, *places.span(first)))
        elif first is not None:
            blocks.append(Block(start, end, *[places.span(first)[0]] * 2))
    return blocks


def _bodies(node: ast.AST, *, within: bool) -> Iterator[list[ast.stmt]]:
    """Return the lists of statements inside functions."""
    within = within or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for _, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        if within and children and isinstance(children[0], ast.stmt):
            yield children
        for child in children:
            if isinstance(child, ast.AST):
                yield from _bodies(child, within=within)


def _first(statements: list[ast.stmt]) -> ast.stmt | ast.expr | None:
    """Return the statement before which a probe can stand, or the expression around which it can."""
    for statement in statements:
        match statement:
            case ast.If(test=expression) | ast.While(test=expression) | ast.For(iter=expression):
                return expression
            case ast.Match(subject=expression) | ast.With(items=[ast.withitem(context_expr=expression), *_]):
                return expression
            case ast.Try(body=body):
                return _first(body)
            case ast.FunctionDef() | ast.ClassDef() | ast.Expr(value=ast.Constant()):
                # They do nothing yet, and a text that is the first statement must stay it.
                continue
            case _:
                return statement
    return None


def _changes(tree: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, ast.AST]]:
    """Return pairs of a node inside a function, and what a mutant has in its place."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                yield from _changes_of_call(statement)
        else:
            yield from _changes(node)


def _changes_of_call(node: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, ast.AST]]:
    if isinstance(node, _LEFT_ALONE):
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for statement in node.body:
            yield from _changes_of_call(statement)
        return
    if isinstance(node, (ast.expr, ast.stmt)):
        yield from _replacements(node)
    yield from _negated_tests(node)
    for name, value in ast.iter_fields(node):
        # Annotations name types, and the texts of errors are matched by those tests that look at them.
        if name == "annotation" or (isinstance(node, ast.Raise) and name == "exc"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes_of_call(child)


def _negated_tests(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.comprehension)):
        for test in node.ifs if isinstance(node, ast.comprehension) else [node.test]:
            # Tests that compare or join have mutants of their own.
            if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant)):
                yield test, ast.UnaryOp(ast.Not(), test)


def _replacements(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.stmt | ast.expr, ast.AST]]:
    if isinstance(node, ast.stmt):
        yield from _changed_statements(node)
    match node:
        case ast.Compare(ops=[operator, *rest]):
            yield node, _with(node, ops=[_COMPARISONS[type(operator)], *rest])
        case ast.BoolOp(op=joined):
            yield node, _with(node, op=ast.Or() if isinstance(joined, ast.And) else ast.And())
        case ast.BinOp(op=combined) if type(combined) in _OPERATORS:
            yield node, _with(node, op=_OPERATORS[type(combined)])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.Constant(value=bool(truth)):
            yield node, ast.Constant(not truth)
        case ast.Constant(value=int(number)):
            yield node, ast.Constant(number + 1)
            yield node, ast.Constant(number - 1)


def _changed_statements(node: ast.stmt) -> Iterator[tuple[ast.stmt, ast.AST]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield node, ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, ast.Pass()
        case _ if isinstance(node, _REMOVED):
            yield node, ast.Pass()
        case _:
            return


def _with(node: ast.expr | ast.stmt, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
