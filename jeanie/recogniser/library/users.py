"""Users of a library, and the access tokens that prove who they are."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select, update

from jeanie.errors import ConfigError
from jeanie.recogniser.library.database import database_errors, transaction
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.library.rows import normalise_name
from jeanie.recogniser.library.schema import users

__all__ = ["Credential", "User", "Users"]

_PREFIX = "jeanie"
_MAX_TOKEN = 200  # characters


@dataclass(frozen=True)
class User:
    """A user. Without a token, the user's examples stay but nobody can use them over the network."""

    name: str
    created: datetime
    has_token: bool


@dataclass(frozen=True)
class Credential:
    """The stored part of a token: its id, which is not secret, and the salted hash of its secret."""

    user: str
    token_id: str
    salt: str
    hash: str


class Users:
    """The users of a library. Each one owns actions of the same library.

    A token is ``jeanie_ID_SECRET``. The secret has 256 random bits, so one round of a salted hash protects it: nobody
    can try all secrets.

    Args:
        library: The library; its owner does not matter.
    """

    def __init__(self, library: Library) -> None:
        self._engine, self._place = library.engine, library.place

    def add(self, name: str) -> str:
        """Add a user, or give a new token to a user without one; return the token, which is not stored."""
        name = normalise_name(name, "a user name")
        token_id, secret, salt = secrets.token_hex(8), secrets.token_urlsafe(32), secrets.token_hex(16)
        values = {"token_id": token_id, "salt": salt, "hash": _compute_hash(salt, secret)}
        with database_errors(self._place), transaction(self._engine, write=True) as connection:
            row = connection.execute(select(users.c.token_id).where(users.c.name == name)).one_or_none()
            if row is None:
                connection.execute(insert(users).values(name=name, **values))
            elif row.token_id is None:
                connection.execute(update(users).where(users.c.name == name).values(**values))
            else:
                raise ConfigError(
                    f"{self._place}: user {name!r} has a token already; for a new one, first run: jeanie user revoke"
                )
        return f"{_PREFIX}_{token_id}_{secret}"

    def list(self) -> list[User]:
        """Return all users, sorted by name."""
        query = select(users.c.name, users.c.created, users.c.token_id).order_by(users.c.name)
        with database_errors(self._place), transaction(self._engine, write=False) as connection:
            rows = connection.execute(query).all()
        return [User(row.name, row.created, row.token_id is not None) for row in rows]

    def is_empty(self) -> bool:
        """Return whether there is no user, not even one whose token was revoked."""
        with database_errors(self._place), transaction(self._engine, write=False) as connection:
            return connection.scalar(select(users.c.name).limit(1)) is None

    def revoke(self, name: str) -> None:
        """Make the token of a user invalid at once. The user's examples stay."""
        name = normalise_name(name, "a user name")
        nothing = {"token_id": None, "salt": None, "hash": None}
        with database_errors(self._place), transaction(self._engine, write=True) as connection:
            changed = connection.execute(update(users).where(users.c.name == name).values(**nothing))
            if not changed.rowcount:
                names = ", ".join(connection.scalars(select(users.c.name).order_by(users.c.name).limit(10)))
                raise ConfigError(f"{self._place}: no user {name!r}; known are: {names or 'none'}")

    def find_credential(self, token_id: str) -> Credential | None:
        """Return the stored part of a token by its id."""
        columns = (users.c.name, users.c.token_id, users.c.salt, users.c.hash)
        with database_errors(self._place), transaction(self._engine, write=False) as connection:
            row = connection.execute(select(*columns).where(users.c.token_id == token_id)).one_or_none()
        return None if row is None else Credential(*row)

    def find_by_token(self, token: str) -> Credential | None:
        """Return the credential of a token, or None if it is not valid. Secrets are compared in constant time."""
        prefix, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        if prefix != _PREFIX or not secret or len(token) > _MAX_TOKEN or not token_id.isalnum():
            return None
        credential = self.find_credential(token_id)
        expected = "" if credential is None else credential.hash
        is_right = hmac.compare_digest(
            _compute_hash("" if credential is None else credential.salt, secret), expected
        )
        return credential if is_right else None


def _compute_hash(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt}{secret}".encode("utf-8", "surrogatepass")).hexdigest()
