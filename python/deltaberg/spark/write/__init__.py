"""Writing the rows of Spark DataFrames."""
