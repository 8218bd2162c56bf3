"""``jeanie user``: users of a library and their access tokens for ``jeanie serve``."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from jeanie.cli.options import Place, find_library
from jeanie.cli.terminal import AsJson, exit_on_error, print_report, track_command
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.library.users import Users

__all__ = ["user"]

user = typer.Typer(
    no_args_is_help=True,
    help="Users of a library for jeanie serve: each has a token and actions of their own.",
)

Name = Annotated[str, typer.Argument(help="Name of the user.")]


@user.command("add")
@track_command
def add_user(name: Name, library: Place = None, as_json: AsJson = False) -> None:
    """Add a user and print an access token. Only a hash of it is stored, so it cannot be shown again."""
    with exit_on_error(as_json), Library(find_library(library, make=True)) as store:
        token = Users(store).add(name)
        facts = {"library": store.place, "user": name, "token": token}
        print_report(facts, [f"token of {escape(name)} (it is not shown again):", token], as_json)


@user.command("list")
@track_command
def list_users(library: Place = None, as_json: AsJson = False) -> None:
    """List the users with their numbers of examples."""
    with exit_on_error(as_json), Library(find_library(library)) as store:
        rows = [
            {
                "user": account.name,
                "has_token": account.has_token,
                "examples": len(store.with_owner(account.name).index()),
                "created": account.created.isoformat(),
            }
            for account in Users(store).list()
        ]
        table = Table("user", "token", "examples", "created", box=None, pad_edge=False)
        for row in rows:
            token = "yes" if row["has_token"] else "revoked"
            table.add_row(escape(str(row["user"])), token, str(row["examples"]), str(row["created"])[:19])
        empty = f"{store.place}: no users yet; add one with: jeanie user add NAME"
        print_report({"library": store.place, "users": rows}, [table if rows else empty], as_json)


@user.command("revoke")
@track_command
def revoke_user(name: Name, library: Place = None, as_json: AsJson = False) -> None:
    """Make the token of a user invalid at once. The examples stay; jeanie user add gives a new token."""
    with exit_on_error(as_json), Library(find_library(library)) as store:
        Users(store).revoke(name)
        print_report({"library": store.place, "user": name}, [f"token of {escape(name)} revoked"], as_json)
