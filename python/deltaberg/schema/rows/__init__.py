"""Values of rows as those of a table's columns: conformed, compared, and checked."""
