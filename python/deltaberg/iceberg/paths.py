"""Where the paths lead that Iceberg's metadata records. They are no URIs: nothing in them is decoded."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.storage import PathResolver

__all__ = ["locate_paths"]

#: What keeps a path from being its prefix and a plain rest.
_UNTIDY = r"(^|/)\.{0,2}(/|$)"


def locate_paths(paths: pa.StringArray, resolver: PathResolver, location: str) -> pa.StringArray:
    """Give where recorded paths lead; nearly all are plain names below the table, which need no thought each."""
    prefix = location.rstrip("/") + "/"
    below = pc.starts_with(paths, prefix)
    rest = pc.utf8_slice_codeunits(paths, len(prefix))
    plain = pc.and_(below, pc.invert(pc.match_substring_regex(rest, _UNTIDY))).fill_null(False)
    if not pc.any(plain, min_count=0).as_py():
        return pa.array([str(resolver.resolve(path)) for path in paths.to_pylist()], pa.string())
    sample = paths.filter(plain)[0].as_py()
    root = str(resolver.resolve(sample)).removesuffix(sample[len(prefix) :])
    located = pc.binary_join_element_wise(pa.scalar(root), rest, "")
    if pc.all(plain, min_count=0).as_py():
        return located
    others = [str(resolver.resolve(path)) for path in paths.filter(pc.invert(plain)).to_pylist()]
    return pc.replace_with_mask(located, pc.invert(plain), pa.array(others, pa.string()))
