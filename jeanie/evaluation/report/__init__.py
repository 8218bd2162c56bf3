"""Results of an evaluation: intervals, paired tests, charts, and self-contained pages."""
