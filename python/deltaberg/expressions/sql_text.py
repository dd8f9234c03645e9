"""SQL text in Spark's dialect as a tree of sqlglot: the one step that filters and values share.

The names of functions stay as they were written. What sqlglot knows about functions differs from version to version,
and what they mean is for the modules above to say.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from deltaberg.errors import ExpressionError, MissingDependencyError, first_line
from deltaberg.lossless_json import has_lone_surrogate

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["is_nan_word", "parse_text"]

#: Functions with a syntax of their own.
_OWN_SYNTAX = frozenset({"CAST", "EXTRACT", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST"})


def parse_text(text: str, kind: str) -> exp.Expr:
    """Return the tree of an expression.

    Parameters
    ----------
    kind
        How errors call the expression: "filter", "expression".

    Raises
    ------
    ExpressionError
        If the text is not one expression.
    MissingDependencyError
        If sqlglot is not installed.
    """
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ImportError as error:
        raise MissingDependencyError(
            f"a {kind} as SQL text needs the package sqlglot" if kind != "expression" else "SQL text needs sqlglot",
            hint="pip install 'deltaberg[sql]', or build conditions with col()",
        ) from error
    if has_lone_surrogate(text):
        raise ExpressionError(f"the {kind} {text!r:.200} is not valid Unicode")
    if not text.strip():
        raise ExpressionError(f"the {kind} is empty", hint=f"write {kind}s as SQL, such as id > 3")
    try:
        return sqlglot.parse_one(text, dialect=_dialect())
    except SqlglotError as error:
        raise ExpressionError(f"the {kind} {text!r} is not a SQL expression: {_reason(error)}") from None
    except RecursionError:
        raise ExpressionError(f"the {kind} is nested too deeply") from None


def _reason(error: Exception) -> str:
    """Return what is wrong with a text, without the names of classes of sqlglot."""
    found = next(iter(getattr(error, "errors", ())), None)
    if found is None:
        return first_line(error)
    what = "something is missing" if "<class" in found["description"] else found["description"]
    return f"{what} at {found['highlight']!r} (line {found['line']}, column {found['col']})"


def is_nan_word(node: exp.Expr) -> bool:
    """Return whether a node is the word NaN, as in ``x IS NAN`` of pyiceberg, which is unknown for null."""
    from sqlglot import exp

    return isinstance(node, exp.Column) and len(node.parts) == 1 and not node.this.quoted and node.name.lower() == "nan"


@cache
def _dialect() -> Any:
    """Return Spark's dialect, with two quotes inside text standing for one, as in standard SQL and Spark 4."""
    from sqlglot.dialects.spark import Spark

    parser: Any = Spark.Parser

    class Values(Spark):
        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES: ClassVar = ["\\", "'", '"']

        class Parser(parser):  # type: ignore[misc]
            FUNCTIONS: ClassVar[dict[str, Any]] = {}
            NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
            NO_PAREN_FUNCTION_PARSERS: ClassVar = {
                name: parser for name, parser in parser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("CASE", "IF")
            }
            FUNCTION_PARSERS: ClassVar = {
                name: parser for name, parser in parser.FUNCTION_PARSERS.items() if name in _OWN_SYNTAX
            }

    return Values
