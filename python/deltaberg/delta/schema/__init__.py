"""Schemas, column mapping, type changes, rules for writers (Delta protocol, "Schema Serialization Format")."""
