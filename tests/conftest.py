"""Shared set-up of the tests."""

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for oracles

settings.register_profile("jeanie", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.load_profile("jeanie")
