"""Dates, timestamps and intervals: read, written, and taken apart."""
