"""Writing rows to the data files of a table of any format."""
