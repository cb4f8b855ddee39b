"""Kernel tests run in Triton's interpreter, on a CPU; without torch and triton none is collected.

`make test-kernels` runs them in a venv that has torch, triton, numpy and pytest and nothing else.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ["TRITON_INTERPRET"] = "1"  # must be there before triton is imported

collect_ignore_glob = [] if find_spec("torch") and find_spec("triton") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kernels)
