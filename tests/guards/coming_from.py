"""The page for users of other libraries, from the tables by which missing names say what to write instead.

``python -m tests.guards.coming_from --write`` renews the page.
"""

from __future__ import annotations

import sys

from deltaberg.coming_from.name_table import SAME
from deltaberg.missing_names import LIBRARIES
from tests.support.pages import ROOT

__all__ = ["PAGE", "page"]

PAGE = ROOT / "docs" / "coming-from.md"
_HEAD = """# Coming from another library

What to write in place of the names of deltalake, polars, pyiceberg, delta-spark and iceberg-spark. Code that names no
object is of the object that the name is looked for on. "The same" works as it is, and takes that library's words for
its arguments.
A name that is missing here raises `UnknownNameError`, which says the same:

```text
>>> table.to_pyarrow_table()
UnknownNameError: DeltaTable has no to_pyarrow_table, which is a name of deltalake
hint: write to_arrow(), or scan(filter, columns).to_arrow()
```

`python -m tests.guards.coming_from --write` makes this page of the tables in `python/deltaberg/coming_from`, and a test
looks that they have every public name of deltalake and pyiceberg.
"""
_TITLES = {"deltaberg": "the module", "Scan": "scans and frames", "Catalog": "catalogs"}


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD]
    for library, tables in LIBRARIES.items():
        parts.append(f"\n## From {library}\n")
        for place, names in tables.items():
            parts.append(f"\n| {_TITLES.get(place, f'`{place}`')} | here |\n|---|---|\n")
            parts += [f"| `{name}` | {text} |\n" for name, text in names.items() if text != SAME]
            same = ", ".join(f"`{name}`" for name, text in names.items() if text == SAME)
            parts += [f"| {same} | {SAME} |\n"] if same else []
    return "".join(parts)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), "utf-8")
    else:
        print(page())
