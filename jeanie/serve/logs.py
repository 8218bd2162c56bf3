"""Logs of the service: JSON lines on standard error."""

import json
import logging
import sys

__all__ = ["LOGGER", "JsonFormatter", "set_up_logs"]

LOGGER = logging.getLogger("jeanie.serve")


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        facts = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return json.dumps(facts)


def set_up_logs() -> None:
    """Write the logs of this process, and the warnings of the server library, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for logger in (LOGGER, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if logger is LOGGER else logging.WARNING)
