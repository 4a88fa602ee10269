"""Where Python looks for the rivals, and for what the package's tests share."""

import sys
from pathlib import Path

TOP = Path(__file__).parents[2]
sys.path[:0] = [str(folder) for folder in (TOP, TOP / "tests", TOP / "tests/unit")]
