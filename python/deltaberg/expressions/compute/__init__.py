"""Kernels of arithmetic, comparisons, logic, lists and patterns."""
