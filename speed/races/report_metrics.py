"""BLEU-4, ROUGE-L and CIDEr-D of generated reports against pycocoevalcap, where it is installed.

Both sides get words split alike: pycocoevalcap's own splitter, a Java program, stands outside.
``pip install --no-deps pycocoevalcap`` for this race alone.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from cxrflow.metrics import Cider, bleu, bleu_counts, rouge_l
from cxrflow.metrics.intervals import Floats
from speed.race import Race
from speed.races.report_labels import synthetic

REPORTS, BETA = 2000, 1.2  # its weight of recall in ROUGE-L


def close(ours: Floats, peer: Floats) -> None:
    np.testing.assert_allclose(ours, peer, rtol=1e-7, atol=1e-9)


def scorer(name: str) -> Any:
    """The scorer of pycocoevalcap of this name."""
    return getattr(importlib.import_module(f"pycocoevalcap.{name.lower()}.{name.lower()}"), name)


def races(count: int = REPORTS) -> list[Race]:
    if importlib.util.find_spec("pycocoevalcap") is None:
        print("report_metrics: pycocoevalcap is not installed, no race")
        return []
    references = [text.lower().split() for text in synthetic(count)]
    hypotheses = references[1:] + references[:1]  # another report of the same or the next patient
    spaced = [
        {place: [" ".join(words)] for place, words in enumerate(reports)}
        for reports in (references, hypotheses)
    ]

    def bleu_4() -> Floats:
        return np.atleast_1d(bleu(bleu_counts(references, hypotheses), 4))

    def peer_bleu() -> Floats:
        return np.array(scorer("Bleu")(4).compute_score(*spaced, verbose=0)[0][3:])

    works: dict[str, tuple[Callable[[], Floats], Callable[[], Floats], float]] = {
        "bleu": (bleu_4, peer_bleu, 1.5),
        "rouge_l": (
            lambda: rouge_l(references, hypotheses, BETA),
            lambda: np.asarray(scorer("Rouge")().compute_score(*spaced)[1]),
            30,
        ),
        "cider_d": (
            lambda: Cider(references).cider_d(references, hypotheses),
            lambda: np.asarray(scorer("Cider")().compute_score(*spaced)[1]),
            1.5,
        ),
    }
    return [
        Race(
            name=name,
            what=f"{count} reports of the synthetic hospital, each against the next one",
            ours=ours,
            peers={"pycocoevalcap": peer},
            check=close,
            gates={"pycocoevalcap": gate},
            amount=count,
            unit="report",
            notes=["one thread; words are split before"],
        )
        for name, (ours, peer, gate) in works.items()
    ]
