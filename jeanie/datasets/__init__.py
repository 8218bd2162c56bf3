"""Read motions from files (``read_motion``) and open published or prepared data sets (``open_dataset``)."""

from jeanie.datasets.dataset import Dataset
from jeanie.datasets.registry import DATASETS, FORMATS, Format, detect_format, open_dataset, read_motion

__all__ = ["DATASETS", "FORMATS", "Dataset", "Format", "detect_format", "open_dataset", "read_motion"]
