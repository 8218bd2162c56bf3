"""What all requests share: the recognisers with their lock, uploads, metrics, and the pages of explanations."""

import threading
from collections import OrderedDict
from pathlib import Path

import torch
from anyio import CapacityLimiter

from jeanie.datasets.dataset import Dataset
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.recogniser.library.users import Users
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.metrics import Metrics
from jeanie.serve.pages import PageStore
from jeanie.serve.settings import ServeConfig
from jeanie.serve.uploads import UploadReader

__all__ = ["Service"]

_ACCESS_THREADS = 8
_OWNERS = 64  # recognisers in memory, each with the encoded examples of one owner


class Service:
    """State of the service. ``lock`` guards the recognisers: one computation at a time, with one thread.

    Args:
        recogniser: The enrolled actions and the model.
        config: Settings of the service.
        archive: Recordings to search, or None.
        cache: Folder that keeps the features of the archive.
    """

    def __init__(
        self,
        recogniser: Recogniser,
        config: ServeConfig,
        archive: Dataset | None = None,
        cache: Path | None = None,
    ) -> None:
        self.recogniser, self.config = recogniser, config
        self.archive, self.cache = archive, cache
        self.lock, self.search_lock = threading.RLock(), threading.Lock()
        self.access_threads = CapacityLimiter(
            _ACCESS_THREADS
        )  # the others may all wait for long computations
        self.metrics = Metrics()
        self.users = Users(recogniser.library)
        self.uploads = UploadReader(config.limits)
        self.pages = PageStore(config.folder)
        self.is_ready = False
        self.is_stopping = False
        self._owners: OrderedDict[str, Recogniser] = OrderedDict()
        self._owners_lock = threading.Lock()

    def start(self) -> None:
        """Prepare for fast answers: the first recognition of a process takes seconds, later ones milliseconds."""
        torch.set_num_threads(1)
        motion = open_synthetic()[0]
        with self.lock:
            if self.recogniser.actions:
                self.recogniser.recognise(motion)
            else:
                with Recogniser.load(model=self.recogniser.model) as other:
                    other.enrol("wave", motion)
                    other.recognise(motion)
        self.uploads.start()
        self.is_ready = True

    def stop(self) -> None:
        """Stop the worker process."""
        self.is_ready, self.is_stopping = False, True
        self.uploads.stop()

    def for_owner(self, owner: str) -> Recogniser:
        """Return the recogniser with the actions of an owner, and of nobody else."""
        if not owner:
            return self.recogniser
        with self._owners_lock:
            recogniser = self._owners.pop(owner, None) or self.recogniser.with_owner(owner)
            self._owners[owner] = recogniser
            while len(self._owners) > _OWNERS:
                self._owners.popitem(last=False)
        return recogniser
