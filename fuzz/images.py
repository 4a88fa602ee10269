"""What the kinds of images share: a folder of damaged files through the pixel store."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pandas as pd

from cxr_files.atomic import read_object
from fuzz.trial import SECONDS, Trial


def store(trial: Trial, work: Path, draw: Callable[[Random, Path], Path]) -> list[Path]:
    """Draw the files, each by ``draw(random, path without suffix)``, and store them as a program.

    Each is in the store or among its failures, in the order of their names, and none took too long.
    """
    (work / "files").mkdir()
    paths = [
        draw(trial.random(number), work / "files" / f"{number:05d}")
        for number in range(trial.count)
    ]
    rows = [{"image_id": path.stem, "image_path": f"files/{path.name}"} for path in paths]
    pd.DataFrame(rows).to_parquet(work / "images.parquet")
    settings = {"max_failed_share": 1, "max_seconds": SECONDS, "images_per_shard": 100}
    arguments = [
        *("cxrflow.images.store_pixels", "--root", work, "--images", work / "images.parquet"),
        *("--geometry", "square32", "--settings", json.dumps(settings)),
        *("--threads", trial.workers, "--output", work / "store"),
    ]
    ended = trial.program(arguments, 60 + SECONDS * trial.count / 10)
    if ended.code:
        trial.fault(work / "store", f"the store ended with {ended.code}: {ended.words[-1000:]}")
        return paths
    content = read_object(work / "store" / "store.json", ("failures",))
    stored = set(pd.read_parquet(work / "store" / "index.parquet")["image_id"])
    failures = {failure["image_id"]: failure["reason"] for failure in content["failures"]}
    trial.outcome("stored", len(stored))
    for path in paths:
        reason = failures.get(path.stem)
        if (path.stem in stored) == (reason is not None):
            trial.fault(path, "neither in the store nor among its failures, or both")
        elif reason is not None:
            crashed = "decoder crashed" in reason
            trial.outcome("its decoder crashed" if crashed else "failed with a reason")
            if "processor time" in reason or "no answer" in reason:
                trial.fault(path, reason)
            if "\n" in reason or not reason.isprintable() or len(reason) > 400:
                trial.fault(path, f"a reason that is no line: {reason!r}")
    return paths
