"""What a scan will read, in words."""

from __future__ import annotations

import pyarrow.compute as pc

from deltaberg.expressions import TRUE
from deltaberg.schema import Struct
from deltaberg.table.plan import Plan

__all__ = ["explain_plan"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def explain_plan(plan: Plan, output: Struct, constants: Struct, limit: int | None) -> str:
    """Describe a plan: what each step keeps, what is read, and what remains to be done for each row."""
    source = plan.source
    lines = [f"Scan of {source.table}, {source.description}"]
    for number, step in enumerate(plan.steps):
        lead = "all" if number == 0 else f"by {step.name}"
        share = "" if number == 0 else f", {plan.steps[number - 1].files - step.files} skipped"
        lines.append(f"  {lead + ':':22} {step.files} files, {_bytes(step.size)}{share}")
    constant = set(constants.names)
    from_files = [child.name for child in output if child.name not in constant]
    lines.append(f"  columns from files:    {', '.join(from_files) or 'none'}")
    if constant:
        lines.append(f"  constant in a file:    {', '.join(constants.names)}")
    if plan.condition == TRUE:
        lines.append("  filter:                none")
    else:
        remaining = pc.sum(plan.filtered).as_py() or 0
        lines.append(f"  filter:                {plan.condition}")
        lines.append(f"  applied to rows of:    {remaining} files; the others match whole")
    deleted = pc.sum(plan.deleted_counts).as_py() or 0
    vectors = pc.sum(plan.files.column("exclude").combine_chunks().is_valid()).as_py() or 0
    if vectors:
        lines.append(f"  deletion vectors:      {vectors} files, {deleted} rows deleted")
    if limit is not None:
        lines.append(f"  limit:                 {limit} rows")
    lines.append("  road:                  local; on Spark arrow (to_spark) or fused (map_in_arrow)")
    return "\n".join(lines)


def _bytes(size: float) -> str:
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes every size")
