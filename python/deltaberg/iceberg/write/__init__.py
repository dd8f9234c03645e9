"""Appending rows and files to an Iceberg table, and replacing rows by others."""
