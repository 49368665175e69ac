"""What all tests share: compiled programs kept between runs, and Hypothesis without deadlines."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

CACHE = Path(__file__).parent.parent / ".cache" / "jax"

# Environment variables rather than jax.config, so that subprocesses see them too and collecting
# the tests does not import JAX.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Programs are small here, and made more often than they run.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("MPLBACKEND", "Agg")

# The first example of a test may compile for seconds.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Compiled programs hold memory maps, of which a process may have some 65,000."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
