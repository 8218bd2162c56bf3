"""What all requests share: the recogniser with its lock, uploads, metrics, and the pages of explanations."""

import secrets
import threading
from collections import OrderedDict

import torch

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.metrics import Metrics
from jeanie.serve.settings import ServeConfig
from jeanie.serve.uploads import UploadReader

__all__ = ["Service"]

_PAGES = 64  # explanation pages in memory


class Service:
    """State of the service. ``lock`` guards the recogniser: one computation at a time, with one thread.

    Args:
        recogniser: The enrolled actions and the model.
        config: Settings of the service.
    """

    def __init__(self, recogniser: Recogniser, config: ServeConfig) -> None:
        self.recogniser, self.config = recogniser, config
        self.lock = threading.Lock()
        self.metrics = Metrics()
        self.uploads = UploadReader(config.limits)
        self.is_ready = False
        self.is_stopping = False
        self._pages: OrderedDict[str, str] = OrderedDict()

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

    def keep_page(self, html: str) -> str:
        """Keep a page for a while and return its id."""
        page = secrets.token_urlsafe(12)
        self._pages[page] = html
        while len(self._pages) > _PAGES:
            self._pages.popitem(last=False)
        return page

    def find_page(self, page: str) -> str | None:
        """Return a page by its id, or None if it is too old."""
        return self._pages.get(page)
