"""Generic helpers that know nothing about motions."""
