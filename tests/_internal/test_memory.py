"""Memory of a process whose threads compute one after the other."""

import subprocess
import sys

import pytest

# Ten threads that stay alive; each in turn allocates and frees 60 MB in blocks too small to be mapped one by one.
SCRIPT = """
import sys, threading
import numpy as np
from jeanie._internal.memory import share_freed_memory

if sys.argv[1] == "shared":
    assert share_freed_memory()

def measure_rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

done, finished = threading.Semaphore(0), threading.Event()
def compute():
    blocks = [np.ones(12_500) for _ in range(600)]
    top = np.ones(12_500)
    del blocks
    done.release()
    finished.wait()

before = measure_rss()
for _ in range(10):
    threading.Thread(target=compute).start()
    done.acquire()
print(measure_rss() - before)
finished.set()
"""


def measure_growth(mode):
    command = [sys.executable, "-c", SCRIPT, mode]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(
    sys.platform != "linux", reason="the C library of this system has one area for all threads"
)
def test_threads_that_compute_in_turn_use_the_memory_of_one():
    assert measure_growth("shared") < 200
    assert measure_growth("default") > 400  # else this test shows nothing
