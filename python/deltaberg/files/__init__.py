"""Reading and writing data files."""
