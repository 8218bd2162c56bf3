"""What several tests of readers share."""

import pytest


@pytest.fixture
def write_file(tmp_path):
    """Writes text or bytes into a file of a fresh folder and gives its path."""

    def write(data, name):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write
