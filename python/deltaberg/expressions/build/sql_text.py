"""SQL text in Spark's dialect as a tree of sqlglot: the one step that filters and values share.

The names of functions stay as they were written. What sqlglot knows about functions differs from version to version,
and what they mean is for the modules above to say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from deltaberg.errors import ExpressionError, MissingDependencyError, first_line
from deltaberg.expressions.tree.double_quotes import DoubleQuoted, name_in_quotes
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.whole_numbers import whole_number

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["decimal_digits", "is_nan_word", "literal_text", "name_parts", "parse_text"]

#: The member of a node's meta that says whether a text stands in double quotes.
_IN_DOUBLE_QUOTES = "in_double_quotes"

#: The most digits of a decimal.
_MOST_DIGITS = 38
#: More characters than the text of any interval has.
_LONG_INTERVAL = 100
#: Functions with a syntax of their own.
_OWN_SYNTAX = frozenset({"CAST", "EXTRACT", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST"})


def parse_text(text: str, kind: str, *, is_stored: bool = False) -> exp.Expr:
    """Return the tree of an expression.

    Parameters
    ----------
    kind
        How errors call the expression: "filter", "expression".
    is_stored
        Whether `literal_text` returns plain texts only; see `parse_value`.

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
            "SQL text beyond plain comparisons of columns with literals needs the package sqlglot",
            hint="pip install 'deltaberg[sql]'⟦, or build conditions with ⟪col()⟫⟧",
        ) from error
    if has_lone_surrogate(text):
        raise ExpressionError(f"the {kind} {text!r:.200} is not valid Unicode")
    if not text.strip():
        raise ExpressionError(f"the {kind} is empty", hint=f"write {kind}s as SQL, such as id > 3")
    try:
        # `parse_one` of older versions of sqlglot drops what follows the first statement.
        statements = sqlglot.parse(text, dialect=_dialect())
    except SqlglotError as error:
        raise ExpressionError(f"the {kind} {text!r:.2000} is not a SQL expression: {_reason(error)}") from None
    except RecursionError:
        raise ExpressionError(f"the {kind} is nested too deeply") from None
    trees = [tree for tree in statements if tree is not None and not isinstance(tree, sqlglot.exp.Semicolon)]
    if len(trees) != 1:
        what = "it is several statements" if trees else "it is empty"
        raise ExpressionError(f"the {kind} {text!r:.2000} is not a SQL expression: {what}")
    (tree,) = trees
    if is_stored:
        for node in tree.walk():
            node.meta.pop(_IN_DOUBLE_QUOTES, None)
    return tree


def _reason(error: Exception) -> str:
    """Return what is wrong with a text, without the names of classes of sqlglot."""
    found = next(iter(getattr(error, "errors", ())), None)
    if found is None:
        return first_line(error)
    what = "something is missing" if "<class" in found["description"] else found["description"]
    return f"{what} at {found['highlight']!r:.200} (line {found['line']}, column {found['col']})"


def is_nan_word(node: exp.Expr) -> bool:
    """Return whether a node is the word NaN, as in ``x IS NAN`` of pyiceberg, which is unknown for null."""
    from sqlglot import exp

    return isinstance(node, exp.Column) and len(node.parts) == 1 and not node.this.quoted and node.name.lower() == "nan"


def decimal_digits(node: exp.DataType) -> tuple[int, int]:
    """Return the precision and the scale of a type DECIMAL, which is no type where they are too great.

    Raises
    ------
    ExpressionError
        It is none.
    """
    numbers = [whole_number(part.name, 0) for part in node.expressions] + [10, 0][len(node.expressions) :]
    precision, scale = (numbers[0], numbers[1]) if len(numbers) == 2 else (None, None)
    if precision is None or scale is None or not 1 <= precision <= _MOST_DIGITS or scale > precision:
        raise ExpressionError(f"{node.sql(dialect='spark'):.100} is not a type")
    return precision, scale


def literal_text(node: exp.Expr) -> str:
    """Return the text of a literal, which is a `DoubleQuoted` if it stands in double quotes."""
    return DoubleQuoted(node.name) if node.meta.get(_IN_DOUBLE_QUOTES) else str(node.name)


def name_parts(node: exp.Column | exp.Dot) -> tuple[str, ...] | None:
    """Return the names on the path of a column; None if the path begins with a value, or leads through one.

    Raises
    ------
    ExpressionError
        A part of it stands in the quotes of a text, as in ``s."a"``.
    """
    from sqlglot import exp

    parts: list[exp.Expr] = []
    base: exp.Expr = node
    while isinstance(base, exp.Dot):
        parts.append(base.expression)
        base = base.this
    if isinstance(base, exp.Column):
        parts += reversed(base.parts)
    for part in parts:
        if isinstance(part, exp.Literal):
            whole = [*parts, base] if isinstance(base, exp.Literal) else parts
            raise name_in_quotes(part.name, [one.name for one in reversed(whole)])
    names = [part.name for part in reversed(parts) if isinstance(part, exp.Identifier)]
    return tuple(names) if isinstance(base, exp.Column) and len(names) == len(parts) else None


@cache
def _dialect() -> Any:
    """Return Spark's dialect, with two quotes inside text standing for one, as in standard SQL and Spark 4."""
    from sqlglot import TokenType
    from sqlglot.dialects.spark import Spark

    parser: Any = Spark.Parser

    def marked(kind: TokenType, first: int) -> Callable[[Any, Any], Any]:
        """Return a parser of texts whose quote is the character with this number of the token."""
        known = parser.STRING_PARSERS[kind]

        def parse(self: Any, token: Any) -> Any:
            node = known(self, token)
            node.meta[_IN_DOUBLE_QUOTES] = self.sql[token.start + first : token.start + first + 1] == '"'
            return node

        return parse

    texts = {TokenType.STRING: marked(TokenType.STRING, 0), TokenType.RAW_STRING: marked(TokenType.RAW_STRING, 1)}

    class Values(Spark):
        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES: ClassVar = ["\\", "'", '"']
            # Older versions of sqlglot read 1.5BD as CAST(1.5 AS DECIMAL), which has no fraction.
            NUMERIC_LITERALS: ClassVar = {**Spark.Tokenizer.NUMERIC_LITERALS, "BD": "BIGDECIMAL"}

        class Parser(parser):  # type: ignore[misc]
            STRING_PARSERS: ClassVar[dict[Any, Any]] = {**parser.STRING_PARSERS, **texts}
            PRIMARY_PARSERS: ClassVar[dict[Any, Any]] = {**parser.PRIMARY_PARSERS, **texts}
            FUNCTIONS: ClassVar[dict[str, Any]] = {}

            NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
            NO_PAREN_FUNCTION_PARSERS: ClassVar = {
                name: parser for name, parser in parser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("CASE", "IF")
            }
            FUNCTION_PARSERS: ClassVar = {
                name: parser for name, parser in parser.FUNCTION_PARSERS.items() if name in _OWN_SYNTAX
            }

            def _parse_interval(self, *positional: Any, **options: Any) -> Any:
                # sqlglot takes a time for the text of an interval that grows with the square of its length.
                begins = self._curr is not None and self._curr.token_type == TokenType.INTERVAL
                goes_on = False in (*positional[:1], options.get("match_interval"))
                token = self._next if begins else self._curr if goes_on else None
                if token is not None and token.token_type == TokenType.STRING and len(token.text) > _LONG_INTERVAL:
                    self.raise_error("the length of an interval is too long", token)
                return super()._parse_interval(*positional, **options)

    return Values
