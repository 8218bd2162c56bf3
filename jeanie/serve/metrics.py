"""Metrics of the service for Prometheus, summed over all worker processes."""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

__all__ = ["METRICS_VARIABLE", "Metrics"]

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder in which worker processes share their metrics."""


class Metrics:
    """Counters and times of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "jeanie_requests", "Answered requests", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "jeanie_request_seconds", "Time to answer a request", ["route"], registry=self.registry
        )
        self.sessions = Gauge(
            "jeanie_streams", "Open streams", registry=self.registry, multiprocess_mode="livesum"
        )
        self.frames = Counter("jeanie_frames", "Frames received by streams", registry=self.registry)
        self.events = Counter(
            "jeanie_events", "Movements found in streams", ["known"], registry=self.registry
        )
        self.dropped = Counter(
            "jeanie_dropped_streams", "Streams closed by the service", ["reason"], registry=self.registry
        )

    def render(self) -> bytes:
        """Return all metrics as text."""
        registry = self.registry
        if folder := os.environ.get(METRICS_VARIABLE):
            registry = CollectorRegistry()
            MultiProcessCollector(registry, folder)
        return generate_latest(registry)
