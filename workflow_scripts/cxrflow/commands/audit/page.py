"""The page of an audit: the findings, and the images whose picture is there twice."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from cxrflow.commands.audit.findings import Finding
from cxrflow.commands.templates import rendered
from cxrflow.images.decode import decode
from cxrflow.images.resize import resize

MOST, MOST_OF_ONE = 60, 12  # pictures on the page, and images of each
NAMES = ("set", "part", "patient", "image")
SIDE = 160  # pixels of the longer side of a picture


def page(
    sizes: Mapping[str, int],
    account: Sequence[Finding],
    again: pd.DataFrame,
    roots: Mapping[str, Path],
) -> str:
    """A self-contained page.

    Args:
        sizes: images of each set.
        again: the images whose picture is there twice, picture by picture.
        roots: the folders of sets whose pictures may be shown; none: ids alone.
    """
    groups = [_group(rows, roots) for _, rows in list(again.groupby("picture"))[:MOST]]
    values = {"sizes": sizes, "found": account, "groups": groups, "most": MOST}
    values["pictures"] = again["picture"].nunique()
    return rendered("page.html.jinja", "cxrflow.commands.audit", **values)


def _group(rows: pd.DataFrame, roots: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The names of each image, and its picture where that may be shown."""
    return [
        {
            "names": [row[name] for name in NAMES if pd.notna(row[name])],
            "source": thumbnail(roots[row["set"]] / row["path"], SIDE)
            if row["set"] in roots
            else None,
        }
        for row in rows.head(MOST_OF_ONE).to_dict("records")
    ]


def thumbnail(path: Path, side: int) -> str:
    """A radiograph as the source of a picture on a page, its longer side at most ``side`` pixels.

    Raises:
        DecodeError: it cannot be read.
    """
    decoded = decode(path)
    height, width = decoded.values.shape
    scale = min(1.0, side / max(height, width))
    small = resize(decoded.values, max(1, round(height * scale)), max(1, round(width * scale)))
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(decoded.to_bytes(small))).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
