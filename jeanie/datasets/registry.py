"""The known data sets: ``open_dataset``."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jeanie.datasets.archive.reader import is_archive, open_archive
from jeanie.datasets.dataset import Dataset, FileDataset
from jeanie.datasets.folders import open_folder
from jeanie.datasets.formats.cmu import open_cmu
from jeanie.datasets.formats.gcn_arrays import open_ctr_gcn, open_st_gcn
from jeanie.datasets.formats.hdf5 import open_hdf5
from jeanie.datasets.formats.kinect import open_action_pairs, open_msraction3d, open_nw_ucla, open_sbu
from jeanie.datasets.formats.kinetics import open_kinetics
from jeanie.datasets.formats.ntu import open_ntu60, open_ntu120
from jeanie.datasets.formats.precog import open_precog
from jeanie.datasets.formats.pyskl import open_pyskl
from jeanie.datasets.formats.uwa import open_uwa3d, open_uwa3d_multiview
from jeanie.datasets.reading import ReadOptions
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, suggest_name
from jeanie.skeleton.layout import LAYOUTS

__all__ = ["DATASETS", "open_dataset"]

DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "msraction3d": open_msraction3d,
    "action-pairs": open_action_pairs,
    "uwa3d": open_uwa3d,
    "uwa3d-multiview": open_uwa3d_multiview,
    "ntu60": open_ntu60,
    "ntu120": open_ntu120,
    "kinetics": open_kinetics,
    "nw-ucla": open_nw_ucla,
    "sbu": open_sbu,
    "cmu": open_cmu,
    "precog": open_precog,
    "pyskl": open_pyskl,
    "st-gcn": open_st_gcn,
    "ctr-gcn": open_ctr_gcn,
    "archive": open_archive,
}
# layouts of the data sets that the JEANIE authors store as HDF5
_HDF5 = {
    "msraction3d": "msr20",
    "action-pairs": "kinect20",
    "uwa3d": "openni15",
    "uwa3d-multiview": "sbu15",
    "ntu60": "ntu25",
    "ntu120": "ntu25",
}


def open_dataset(
    name: str | Path,
    root: str | Path | None = None,
    *,
    pattern: str | Path | None = None,
    options: ReadOptions | None = None,
) -> Dataset:
    """Open a data set. The recordings are listed now; each one is read when it is indexed.

    Args:
        name: A key of ``DATASETS``; "synthetic", which is generated and needs no files; or the path of an archive, of
            a folder of recordings, or of a CSV or Excel sheet that lists recordings.
        root: The folder of the unpacked data set, or an archive of it. By default the folder ``name`` in
            ``$JEANIE_DATA``.
        pattern: For a folder: what its files are called, such as ``"{label}/{subject}_{take}"``, or the path of a sheet
            with the columns file, label, subject, camera, start, end. See ``open_folder``.
        options: For a folder: how its recordings are read. Data sets by name and archives define it.

    Returns:
        The data set.

    Raises:
        DataError: The folder or its files cannot be read.
        ConfigError: The name is unknown, ``root`` is missing and ``$JEANIE_DATA`` is not set, or ``options`` are given
            for recordings that need none.

    >>> open_dataset("synthetic").labels[0]
    'wave'
    """
    name, is_known = str(name), str(name) == "synthetic" or str(name) in DATASETS
    if pattern is not None or (not is_known and root is None and Path(name).exists()):
        place = Path(name if root is None else root)
        if not is_archive(place):
            return open_folder(place, pattern=pattern, options=options)
        name, root, is_known = "archive", place, True
    option_names = [] if options is None else options.list_declared()
    if option_names and is_known:
        raise ConfigError(
            f"{name} defines how it is read; leave out {', '.join(f'{key}=' for key in option_names)}, which is only "
            "for your own files and folders"
        )
    if name == "synthetic" and root is None:
        return open_synthetic()
    if not is_known or (name == "synthetic" and root is not None and not is_archive(root)):
        raise ConfigError(
            f"no data set {name!r}; the known ones are {', '.join(('synthetic', *DATASETS))}; or give a folder"
            f"{suggest_name(name, ('synthetic', *DATASETS))}"
        )
    if root is None:
        folder = os.environ.get("JEANIE_DATA")
        if not folder:
            raise ConfigError(
                f"no folder for {name}; give it as root, or set JEANIE_DATA to the folder that contains it"
            )
        root = Path(folder) / name
    root = Path(root)
    if is_archive(root):
        return open_archive(root)
    if name in _HDF5 and root.suffix in (".hdf5", ".h5"):
        return open_hdf5(root, name, LAYOUTS[_HDF5[name]])
    dataset = DATASETS[name](root)
    return replace(dataset, root=root) if isinstance(dataset, FileDataset) else dataset
