"""Migrations of a library's tables, run by alembic when a library is opened."""
