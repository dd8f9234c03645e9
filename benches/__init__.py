"""Benchmarks that compare deltaberg with other libraries in one run: ``make bench``, ``python -m benches --help``."""
