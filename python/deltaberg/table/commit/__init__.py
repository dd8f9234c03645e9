"""Commits of every format, and what callers say of them."""
