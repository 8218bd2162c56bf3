"""The methods, tables and printed values of the paper, and the search for better settings."""
