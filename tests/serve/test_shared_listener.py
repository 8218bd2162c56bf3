"""Connections of one socket go to the process with the fewest, and are counted until they are closed."""

import socket

import pytest

from jeanie.serve.workers import ConnectionCounts, SharedListener


@pytest.fixture
def listeners(tmp_path):
    """Listeners of two worker processes with the same address, and their counts."""
    counts = [ConnectionCounts(tmp_path / "counts", 2, index) for index in range(2)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        shared = [SharedListener(socket.dup(server.fileno()), one) for one in counts]
        yield shared, counts
        for one in shared:
            one.close()


def test_one_connection_is_accepted_at_a_time(listeners):
    (first, second), counts = listeners
    clients = [socket.create_connection(first.getsockname()) for _ in range(2)]
    accepted = [first.accept()[0]]
    with pytest.raises(BlockingIOError):  # the event loop looks after other work
        first.accept()
    assert counts[0].has_most()
    assert not counts[1].has_most()
    accepted.append(second.accept()[0])
    assert not counts[0].has_most()
    clients[0].sendall(b"x")
    assert accepted[0].recv(1) == b"x"
    accepted[1].close()
    accepted[1].close()  # counts once
    assert counts[0].has_most()
    for one in (*clients, *accepted):
        one.close()
    assert not counts[0].has_most()


def test_a_new_process_starts_with_no_connection(listeners, tmp_path):
    _, counts = listeners
    counts[0].change(5)
    assert counts[0].has_most()
    replaced = ConnectionCounts(tmp_path / "counts", 2, 0)
    assert not replaced.has_most()
