"""What people and other tools read of a sweep: table, terminal, page, CSV and Parquet."""
