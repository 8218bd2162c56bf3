"""Settings of the service: where it listens, who may use it, and its limits."""

import hashlib
import ipaddress
from pathlib import Path

from pydantic import Field

from jeanie.config import Config
from jeanie.errors import ConfigError

__all__ = ["ServeConfig", "ServeLimits", "read_token"]

_MIN_TOKEN, _MAX_TOKEN = 16, 4096


class ServeLimits(Config):
    """Limits of the service. Sizes are enforced while data is read, whatever its headers say."""

    json_bytes: int = Field(default=2**22, ge=1, description="bytes of a JSON request")
    upload_bytes: int = Field(default=2**26, ge=1, description="bytes of an uploaded file")
    message_bytes: int = Field(default=2**18, ge=1, description="bytes of one message to a stream")
    frames: int = Field(default=7200, ge=2, description="frames of one recording in JSON")
    sessions: int = Field(default=32, ge=1, description="streams at the same time")
    session_seconds: float = Field(default=8 * 3600, gt=0, description="duration of one stream")
    idle_seconds: float = Field(default=300, gt=0, description="seconds without a message that end a stream")
    send_seconds: float = Field(default=10, gt=0, description="seconds that a client has to accept a message")
    waiting: int = Field(default=64, ge=1, description="messages that wait in each direction of a stream")
    head_seconds: float = Field(default=15, gt=0, description="seconds until a request has sent its headers")
    body_seconds: float = Field(default=60, gt=0, description="seconds between two parts of a request body")
    body_rate: float = Field(
        default=2**14, gt=0, description="least bytes per second of a request body after these seconds"
    )
    unread_seconds: int = Field(
        default=30, ge=1, description="seconds until a client that reads nothing is dropped (Linux)"
    )
    requests_per_second: float = Field(
        default=50, gt=0, description="mean rate of requests per client address"
    )
    burst: int = Field(default=300, ge=1, description="requests of one client address at once")
    search_seconds: float = Field(default=60, gt=0, description="time to search the archive")
    check_seconds: float = Field(
        default=5, ge=0, description="seconds between checks of the token of a stream"
    )
    uploads: int = Field(default=8, ge=1, description="uploaded files that wait to be read")
    parse_seconds: int = Field(default=20, ge=1, description="processor time to read an uploaded file")
    parse_bytes: int = Field(default=2**30, ge=2**20, description="memory to read an uploaded file")


class ServeConfig(Config):
    """Settings of the service."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0 chooses a free one")
    token_hash: str | None = Field(default=None, description="SHA-256 of the access token; null: no token")
    host_names: tuple[str, ...] = Field(default=(), description="host names under which clients may connect")
    certificate: Path | None = Field(default=None, description="certificate file (PEM) for HTTPS")
    key: Path | None = Field(default=None, description="private key file (PEM) for HTTPS")
    workers: int = Field(default=1, ge=1, le=64, description="number of worker processes")
    folder: Path | None = Field(
        default=None, description="folder that worker processes share; null: one process"
    )
    limits: ServeLimits = Field(default=ServeLimits(), description="limits of the service")

    def check_access(self, *, has_users: bool = False) -> None:
        """Raise ConfigError if other machines could use the service without a token, or HTTPS is incomplete.

        Args:
            has_users: Whether the library has users, so that every request needs a token anyway.
        """
        if not _is_loopback(self.host) and self.token_hash is None and not has_users:
            raise ConfigError(
                f"--host {self.host} lets other machines connect, so an access token is needed; write one to a file "
                "and give it with --token-file, or add users with: jeanie user add NAME"
            )
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("HTTPS needs both --certificate and --key; give both or none")
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise ConfigError(f"{path}: no such file; give a PEM file")


def read_token(path: Path) -> str:
    """Return the SHA-256 of the token in a file."""
    try:
        with path.open("rb") as file:
            token = file.read(_MAX_TOKEN + 1).strip()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not _MIN_TOKEN <= len(token) <= _MAX_TOKEN or not token.isascii() or len(token.split()) != 1:
        raise ConfigError(
            f"{path}: a token has {_MIN_TOKEN} to {_MAX_TOKEN} ASCII characters, no spaces, got {len(token)} bytes; "
            "for example: openssl rand -hex 32"
        )
    return hashlib.sha256(token).hexdigest()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
