"""Where rows come from. A table has a public shape; `Table.bounded` is the only door to its rows.

Read `table` first (what every table offers, and rows in memory), then the kind of table you need:

| module               | holds                                                               |
|----------------------|---------------------------------------------------------------------|
| table                | `Table`, `from_arrays`                                              |
| arrays               | arrays, lists and sparse matrices as rows and labels                |
| frames               | `from_frame`: pandas, Polars and PyArrow in memory                  |
| stream               | tables that stay on disk, read batch by batch in constant memory    |
| spill, shuffle       | an exactly uniform shuffle of more rows than memory holds           |
| parquet              | `from_parquet`: files and folders, their footers and batches        |
| csvform              | how a CSV file is written: separator, encoding, compression         |
| csvfile, written     | `from_csv`; by which rule numbers that are written as text are read |
| dates                | dates as whole units, of their own types or written as text         |
| table_file           | a file that a schema describes, as the private table of a fit       |
| arrow                | Arrow columns as NumPy arrays, without an error that a value causes |
| batches              | `from_batches`: chunks of one layout from an iterator, seen once    |
| shuffled_files       | `shuffle_files`: files written anew in a random order, before fits  |
| cluster/             | `from_cluster`: Parquet files that other processes read and sum     |
| origin               | which files the rows lie in, to know them again after a restart     |
"""
