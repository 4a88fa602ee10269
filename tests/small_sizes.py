"""The smallest sizes at which a model of each training program can still be made."""

from typing import Any

TRAINING = {"batch_size": 8, "epochs": None, "steps": 4, "accumulate": 1, "log_steps": 2}
TEXT = {"layers": 2, "width": 32, "heads": 2, "feed_forward": 64, "positions": 64, "projection": 16}
IMAGE = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "projection": 16}
FRAMES = {**IMAGE, "comparison": {"width": 16, "heads": 2, "feed_forward": 16}}
VIT = {
    **{"kind": "vit", "blocks": 2, "width": 16, "heads": 2, "patch": 8, "grid": 4, "channels": 1},
    "projection": 16,
}
SIZES: dict[str, dict[str, Any]] = {
    "text": {"encoder": TEXT, "length": 64, "training": TRAINING},
    "image": {"encoder": IMAGE, "training": TRAINING},
    "supervised": {"encoder": IMAGE, "training": TRAINING},
    "joint": {"encoder": IMAGE, "length": 64, "training": TRAINING},
    "temporal": {"encoder": FRAMES, "length": 64, "training": TRAINING},
    "report": {"decoder": {"length": 64, "report_length": 32}, "training": TRAINING},
}
