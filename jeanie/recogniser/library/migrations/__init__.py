"""Alembic migrations of the tables of a library; they run when a library is opened."""
