"""Read motions from files (``read_motion``) and open published, prepared or own data sets (``open_dataset``)."""

from jeanie.datasets.dataset import Dataset
from jeanie.datasets.format_table import FORMATS, Format, detect_format
from jeanie.datasets.reading import ReadOptions, read_motion
from jeanie.datasets.registry import DATASETS, open_dataset

__all__ = [
    "DATASETS",
    "FORMATS",
    "Dataset",
    "Format",
    "ReadOptions",
    "detect_format",
    "open_dataset",
    "read_motion",
]
