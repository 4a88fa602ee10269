"""The demo's configuration, and what tests lay over it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "config.yaml"
OPEN_I = {"layout": "open_i", "root": "/data/open_i"}
ONE_EDITION = {  # the demo without MIMIC-CXR's second edition of the images
    "roles": {"pairs_more": None, "pairs_raw": None, "grounding_raw": None},
    "cohorts": {"mimic_cxr": {"images": None}, "ms_cxr": {"images": None}},
}
COMPARISONS = "benchmarks.label_agreement.comparisons"


def compared(*comparisons):
    """An overlay that compares report labels with these."""
    return {"benchmarks": {"label_agreement": {"comparisons": list(comparisons)}}}
