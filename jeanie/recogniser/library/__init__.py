"""The library of enrolled examples in SQLite or PostgreSQL."""
