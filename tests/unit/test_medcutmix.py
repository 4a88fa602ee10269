"""MedCutMix's trainings (Wang et al. 2026), as section 3.1 and its tables have them."""

import json
from pathlib import Path

import pytest
from page_fixtures import load

from cxrflow.config.configuration import Config
from cxrflow.data.layouts import layout
from cxrflow.errors import InputError

PAIRS = (30, 40, 50, 100, 300)
CONTROLS = (
    *("unmixed", "text_alone", "image_alone", "other_region", "shuffled_region", "other_class"),
    "true_boxes",
)


@pytest.fixture(scope="module")
def paper() -> Config:
    return load(papers=["medcutmix"], scale="paper")


def settings_of(paper: Config, name: str) -> dict:
    """What decides the training, without its term."""
    return paper.model(f"medcutmix/{name}").settings.record()


def test_the_base_is_mgca_with_its_three_losses_of_equal_weights(paper: Config) -> None:
    """Eq. 7 without its last summand; 72 pairs on each of two GPUs."""
    settings = paper.model("medcutmix/mgca").settings
    terms = settings.terms.named()
    assert {name: term.weight for name, term in terms.items()} == {
        "global_alignment": 1.0, "token_alignment": 1.0, "prototypes": 1.0,
    }  # fmt: skip
    assert (terms["global_alignment"].temperature, terms["token_alignment"].temperature) == (
        0.07, 0.1,
    )  # fmt: skip
    sinkhorn = terms["prototypes"]
    assert (sinkhorn.number, sinkhorn.temperature) == (500, 0.2)
    assert (sinkhorn.epsilon, sinkhorn.iterations) == (0.05, 3)
    encoder = settings.encoder
    assert (encoder.kind, encoder.blocks, encoder.width, encoder.patch) == ("vit", 12, 768, 16)
    assert (encoder.grid, encoder.projection) == (14, 128)  # 196 patches
    training = settings.training
    assert (training.batch_size, training.epochs, training.stopping.patience) == (144, 50, 5)
    assert training.optimiser.learning_rate == 2e-5 and training.optimiser.weight_decay == 0.05
    assert (training.schedule.decay, training.schedule.warmup) == ("cosine", 0.4)


def test_all_that_differs_is_the_term(paper: Config) -> None:
    """Table 1 by N_max at k = 11, Table 2 by k at N_max = 50, controls at N_max = 40."""
    plain = settings_of(paper, "mgca")
    wanted = {f"medcutmix_{pairs}": {"pairs": pairs, "layer": 11} for pairs in PAIRS}
    wanted |= {f"medcutmix_layer{k}": {"pairs": 50, "layer": k} for k in (5, 8)}
    wanted["medcutmix_layer11_from_0"] = {"pairs": 50, "layer": 11, "first_layer": 0}
    wanted["medcutmix_labeller"] = {"pairs": 40, "layer": 11, "sentences": "labeller"}
    wanted |= {f"medcutmix_{c}": {"pairs": 40, "layer": 11, "control": c} for c in CONTROLS}
    seen = []
    for name, values in wanted.items():
        settings = paper.model(f"medcutmix/{name}").settings
        term = settings.terms.cutmix
        stated = {"weight": 1.0, "warmup_epochs": 5, "region_temperature": 0.005}
        stated |= {"temperature": 0.07, "first_layer": 1, "per": "batch", "cls": "target"}
        stated |= {"sentences": "name", "control": None, **values}
        assert {key: getattr(term, key) for key in stated} == stated, name
        assert len(term.classes) == 13 and "No Finding" not in term.classes
        record = settings_of(paper, name)
        assert record["terms"].pop("cutmix") is not None
        assert record == plain, name
        recipe, base = (paper.recipes[f"medcutmix/{one}"] for one in (name, "mgca"))
        for field in ("text", "image", "cohort", "geometry", "selection", "program"):
            assert getattr(recipe, field) == getattr(base, field), (name, field)
        seen.append(term)
    assert len({term.model_dump_json() for term in seen}) == len(wanted) == 16
    # floor(N_max / C) of each class: rows 40 and 50 of Table 1 are of as many pairs.
    assert [pairs // 13 for pairs in PAIRS] == [2, 3, 3, 7, 23]


def test_rows_name_the_models_that_they_stand_for(paper: Config) -> None:
    tables = paper.chosen["medcutmix"].tables
    for pairs in PAIRS:
        row = tables["table1"].row(f"N_max = {pairs}")
        assert row.model == f"medcutmix/medcutmix_{pairs}"
    assert tables["table1"].row("N_max = 0: MGCA").model == "medcutmix/mgca"
    by_layer = {k: tables["table2"].row(f"k = {k}").model for k in (5, 8, 11)}
    assert by_layer == {
        5: "medcutmix/medcutmix_layer5", 8: "medcutmix/medcutmix_layer8",
        11: "medcutmix/medcutmix_50",
    }  # fmt: skip
    # The same training stands in both tables, with the same published values.
    shared = (tables["table1"].row("N_max = 50"), tables["table2"].row("k = 11"))
    assert shared[0].published == shared[1].published and len(shared[0].published) == 6
    # Figure 2's values of AUC are rows 0 and 40 of Table 1.
    for label, of_table in (("MGCA", "N_max = 0: MGCA"), ("MGCA + MedCutMix", "N_max = 40")):
        bars = tables["figure2"].row(label).published
        row = tables["table1"].row(of_table).published
        assert {k: v for k, v in bars.items() if not k.endswith("_f1")} == row


@pytest.mark.parametrize(
    ("model", "term"), [("biovil/biovil", "cutmix"), ("biovil/report_labels", "findings")]
)
def test_a_term_that_reads_labels_needs_a_cohort_that_has_them(overlay, tmp_path, model, term):
    """Said before the encoders that it starts from are trained."""
    terms = {"cutmix": {"layer": 3}} if term == "cutmix" else {}
    row = {"extends": model, "settings": {"terms": terms}}
    cells = {"source": "ours", "task": "biovil/linear_probe", "title": "T"}
    column = {"key": "a", "label": "A", "metric": "auroc/100"}
    table = {**cells, "columns": [column], "rows": [{"label": "M", "model": "m"}]}
    papers = []
    for cohort in ("mimic_cxr", "mimic_cxr_labelled"):
        models = {"m": row | {"cohort": f"biovil/{cohort}"}}
        papers.append(tmp_path / f"{cohort}.yaml")
        papers[-1].write_text(json.dumps({"models": models, "tables": {"t": table}}))
    refused = f"terms.{term}': reads labels, but cohort 'biovil/mimic_cxr' has none; expected"
    with pytest.raises(InputError, match=refused):
        overlay({"papers": [str(papers[0])]})
    given = overlay({"papers": [str(papers[1])]}).model("mimic_cxr_labelled/m").settings
    assert getattr(given.terms, term)


NO_FINDINGS = ["normal", "unchanged", "exclude", "suboptimal study"]


def test_padchest_is_scored_with_and_without_what_is_no_finding(paper: Config) -> None:
    whole, findings = (
        paper.task(f"medcutmix/{name}").settings for name in ("padchest", "padchest_findings")
    )
    assert findings.without == NO_FINDINGS and set(NO_FINDINGS) < set(layout_names())
    # Where nothing is left out the record is that of before.
    assert "without" not in whole.record()
    assert findings.record() == {**whole.record(), "without": NO_FINDINGS}
    columns = [column.key for column in paper.table("medcutmix", "table1").columns]
    assert columns[2:4] == ["padchest", "padchest_findings"]
    average = paper.table("medcutmix", "table1").column("average")
    assert "padchest_findings" not in (average.mean_of or ())


def layout_names() -> tuple[str, ...]:
    names = layout("padchest").listed_classes
    assert len(names) == 193
    return names


def test_a_class_that_padchest_does_not_list_cannot_be_left_out(tmp_path: Path) -> None:
    task = {"medcutmix/padchest": {"without": ["normall"]}}
    with pytest.raises(InputError) as refused:
        load(papers=["medcutmix"], tasks=task)
    assert str(refused.value).endswith(
        "key 'tasks.medcutmix/padchest.without': names 'normall'; expected some of padchest's 193 "
        "classes"
    )
    own = tmp_path / "mine.yaml"
    own.write_text(
        "title: mine\n"
        "tasks: {mine: {extends: medcutmix/padchest, settings: {without: [normall]}}}\n"
        "tables:\n"
        "  mine:\n"
        "    title: mine\n"
        "    source: ours\n"
        "    task: mine\n"
        "    columns: [{key: auroc, label: AUROC, metric: auroc}]\n"
        "    rows: [{label: MGCA, model: medcutmix/mgca}]\n"
    )
    with pytest.raises(InputError) as refused:
        load(papers=[str(own)])
    assert str(refused.value) == (
        f"{own}: key 'tasks.mine.settings.without': names 'normall'; expected some of padchest's "
        "193 classes"
    )


def test_other_test_images_as_the_page_says_it_train_nothing_anew(
    paper: Config, tmp_path: Path
) -> None:
    """docs/medcutmix.md: the cohort that chooses the checkpoints stays."""
    page = (Path(__file__).parents[2] / "docs/medcutmix.md").read_text(encoding="utf-8")
    own = tmp_path / "other_images.yaml"
    own.write_text(page.partition("# other_images.yaml\n")[2].partition("\n```")[0])
    config = load(papers=["medcutmix", str(own)], scale="paper")
    cells = {cell for cell in config.table_cells("other_images", "images")}
    assert cells == {
        (f"other_images/{task}", f"medcutmix/{model}")
        for task in ("chexpert5_first", "chexpert14_first", "padchest_frontal")
        for model in ("mgca", "medcutmix_40")
    }
    for name in ("mgca", "medcutmix_40"):
        name = f"medcutmix/{name}"
        assert config.recipes[name] == paper.recipes[name]
        assert config.model(name).settings.record() == paper.model(name).settings.record()
        chosen_by = config.selecting_cohort(name)
        assert chosen_by == paper.selecting_cohort(name) == "medcutmix/chexpert"
    assert set(config.all_needs.models) == set(paper.all_needs.models)
    cohorts = config.known_cohorts
    assert cohorts["medcutmix/chexpert"].recipe == paper.known_cohorts["medcutmix/chexpert"].recipe
    first, frontal = (cohorts[f"other_images/{c}"] for c in ("chexpert_first", "padchest_frontal"))
    assert (first.recipe.frontal, first.recipe.choose) == (True, "first")
    assert (frontal.recipe.frontal, frontal.recipe.choose) == (True, "all")
    tests = (
        config.task(f"{p}/chexpert5{s}") for p, s in (("medcutmix", ""), ("other_images", "_first"))
    )
    one, other = (task.settings.record() for task in tests)
    assert one == other
