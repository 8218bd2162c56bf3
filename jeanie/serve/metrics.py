"""Metrics of the service for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]


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
        self.sessions = Gauge("jeanie_streams", "Open streams", registry=self.registry)
        self.frames = Counter("jeanie_frames", "Frames received by streams", registry=self.registry)
        self.events = Counter(
            "jeanie_events", "Movements found in streams", ["known"], registry=self.registry
        )
        self.dropped = Counter(
            "jeanie_dropped_streams", "Streams closed by the service", ["reason"], registry=self.registry
        )

    def render(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self.registry)
