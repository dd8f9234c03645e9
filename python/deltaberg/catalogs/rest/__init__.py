"""Commits and requests of catalogs with the REST protocol (Iceberg REST Open API specification)."""
