"""The top of the page: what may be concluded, what leads, what did not learn."""

import json
import re

from page_fixtures import build, edit

from cxrflow.page.inputs import RunFolder


def card(html: str, model: str) -> str:
    """The part of the page that shows a training."""
    return html.partition(f'id="model-biovil-{model}"')[2].partition("</article>")[0]


def test_a_training_that_did_not_learn_is_said(results):
    term = {"loss": 6.899, "upper": 6.91, "chance": 6.931, "learnt": False}
    facts = {"learnt": False, "validation": {"global_alignment": term}}
    edit(results / "models/biovil/biovil/seed0/run.json", **facts)
    simclr = {"simclr": term | {"loss": 4.816, "chance": 4.844}}
    edit(results / "models/biovil/simclr/seed0/run.json", learnt=False, validation=simclr)
    html = build(results)
    assert '<span class="chip">did not learn</span>' in card(html, "simclr")
    own = card(html, "biovil")
    assert "seed 0: Global alignment (6.899, at chance 6.931). No ranking is taken" in own
    assert "It starts from simclr, which did not learn." in own
    assert re.search(r"validation [\d.]+[^<]*, chance 6.93<", own)
    blameless = card(html, "cxr_bert")
    assert "did not learn" not in blameless and "chance 5.7<" in blameless
    opening = html.partition("What may be concluded, and what not")[2].partition("</div>")[0]
    assert "At chance in validation: biovil/simclr, biovil/biovil." in opening
    assert "With fewer than 3 training seeds" in opening


def test_what_leads_stands_beside_what_has_learnt_nothing(results):
    """A reference row that is better is said to be; a model's own weights are neither."""
    folder = results / "benchmarks/biovil/phrase_grounding"
    own = json.loads((folder / "biovil/biovil/seed0/metrics.json").read_text())
    for name, value in (("centre", 0.5), ("finding_box", 9.0)):
        metrics = own["metrics"] | {"cnr": {"value": value, "low": 0.1, "high": 9.5, "n": 4}}
        said = own | {"model": f"reference/{name}", "learnt": None, "metrics": metrics}
        place = folder / f"reference/{name}/seed0/metrics.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(said))
    edit(results / "models/biovil/simclr/seed0/run.json", learnt=None)
    html = build(results)
    opening = html.partition("What may be concluded, and what not")[2].partition("</div>")[0]
    assert (
        "Mean CNR of BioViL: CXR-BERT, global loss, 1.270, is not above what has learnt nothing: "
        "9.000, Mean boxes of other patients with the finding." in opening
    )
    assert "At chance" not in opening and "did not learn" not in card(html, "simclr")


def test_a_leading_model_at_chance_and_its_interval(results):
    task = "benchmarks/biovil/zero_shot_classification/biovil"
    for model, learnt in (("biovil", False), ("baseline_phase2", False)):
        edit(results / f"{task}/{model}/seed0/metrics.json", learnt=learnt)
    html = build(results)
    cards = html.partition('<ul class="cards">')[2].partition("</header>")[0]
    assert cards.count('<p class="fact"><span class="chip">at chance</span></p>') == 1
    assert cards.count('</b> <span class="chip">at chance</span></li>') == 1
    assert "over samples" in cards
    edit(results / "tables/biovil/table5.tests.json", cells=[
        {"task": "t", "model": "m", "metrics": {"cnr": {"low": 1.0, "high": 2.0}}}
    ])  # fmt: skip
    run = RunFolder.read(results / "report/config.json", results)
    assert run.tests("biovil", "table5").intervals["t", "m"]["cnr"] == {"low": 1.0, "high": 2.0}
    assert run.tests("biovil", "absent").intervals == {}
