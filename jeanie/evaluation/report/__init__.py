"""What a measurement reached: intervals, paired tests, charts, and pages that need nothing else."""
