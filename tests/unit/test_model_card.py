"""The card that an export writes: what is known of a model, and that what is not is said."""

from pathlib import Path
from typing import Any

from cxrflow.files.atomic import write_json
from cxrflow.models.card import card

RECORD: dict[str, Any] = {
    "model": "mine/one",
    "seed": 1,
    "program": "joint",
    "data": {
        "name": "my_hospital",
        "synthetic": False,
        "train_samples": 120,
        "geometry": "shorter64",
        "dropped": [{"reason": "no text", "count": 1, "examples": ["s5000"]}],
    },
    "permuted_pairs": {
        "differs": True,
        "terms": {
            "mlm": {"loss": 2.5, "permuted": {"value": 4.25}, "rank": {"value": 0.75}},
            "other": {"loss": 1, "permuted": None, "rank": None},
        },
    },
    "settings": {"training": {"epochs": 2}},
}


def result(folder: Path, task: str, metrics: dict[str, Any], synthetic: bool = False) -> None:
    """The scores of the model in a task."""
    values = {name: {"value": v, "low": v, "high": v, "n": 7} for name, v in metrics.items()}
    data = {"name": "some", "synthetic": synthetic}
    place = folder / f"benchmarks/{task}/mine/one/seed1/metrics.json"
    write_json(place, {"task": task, "data": data, "metrics": values})


def test_a_card_has_data_sizes_scores_limits_and_licence(tmp_path: Path) -> None:
    model = tmp_path / "models/mine/one/seed1"
    result(tmp_path, "biovil/grounding", {"cnr": 1.5, "cnr/edema": 0.5, "miou": None}, True)
    result(tmp_path, "own/pairs", {"recall/1/image_to_text": 0.25})
    result(tmp_path / "benchmarks/elsewhere", "own/pairs", {"other": 0.5})
    text = card(model, RECORD, {"text": 1234, "image": 56})
    assert "# mine/one\n" in text and "- data set: my_hospital\n" in text
    assert "- training samples: 120\n" in text and "- epochs: unknown\n" in text
    losses = "mlm 2.500 (permuted pairs 4.250), rank of the true pair 0.75; other 1.000"
    assert f"- validation loss: {losses}\n" in text
    assert "- text: 1,234 parameters\n- image: 56 parameters\n" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "/" in line]
    assert rows == [
        "| biovil/grounding | some (synthetic) | cnr | 1.500 | 1.500 to 1.500 | 7 |",
        "| own/pairs | some | recall/1/image_to_text | 0.250 | 0.250 to 0.250 | 7 |",
    ]
    for heading in ("Limits", "Licence", "Settings"):
        assert f"\n## {heading}\n" in text
    assert "not a medical device" in text and "Not chosen here" in text
    assert "s5000" not in text  # of no study


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    text = card(tmp_path / "somewhere", {}, {})
    assert "# somewhere\n" in text and "- data set: unknown\n" in text
    assert "No results lie beside the model" in text
    like_permuted = {**RECORD["permuted_pairs"], "differs": False}
    bad = {**RECORD, "permuted_pairs": like_permuted, "data": {"name": "x", "synthetic": True}}
    text = card(tmp_path / "models/mine/one/seed1", bad, {})
    assert (
        "does not differ from that of permuted pairs" in text
        and "knows nothing of patients" in text
    )
    assert "drawn by cxrflow (MIT)" in text
