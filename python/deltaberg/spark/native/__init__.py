"""The native road: Spark's own Parquet reader decodes the planned files, where it gives exactly the rows that we give.

`plan_native` decides for each file of a scan, and makes the DataFrame of those that Spark reads. The rest of the folder
is private to it:

- `verdicts`, `footers` and `to_spark_filters` decide: by the plan, by the footer of each file, and by the filter;
- `opening` has Spark open files, and finds out which stores it can open;
- `join`, `file_keys`, `deleted_words`, `paddings` and `computed` add to the rows of a file what the table format says
  of it.
"""
