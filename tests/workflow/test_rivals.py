"""The folder ``rivals`` beside the workflow: what it adds, and that it changes nothing else."""

import shutil
from pathlib import Path

import pytest

from .conftest import ROOT, Checkout, Job, models_of
from .test_reruns import as_if_finished

RIVALS = ROOT / "rivals"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RIVALS.is_dir(), reason="the rivals are not here; nothing needs them"),
]
OVERLAY = "rivals/rivals.yaml"
STARTS = (
    *("low_data/bert_base", "low_data/clip_pretraining", "convirt/imagenet_pretraining"),
    "biovil/clinical_bert",
)
# By its paper file the table of BioViL's or BioViL-T's that quotes a rival.
TABLES = {
    "radnli_baseline": "table3",
    "cxr_repair": "table3",
    "r2gen": "table3",
    "chexrelnet": "table2",
    "lovt": "table7",
    "ifcc": "table3",
}
PAPERS = [f"rivals/{name}.yaml" for name in TABLES]
MODELS = {
    *("cxr_repair/clip", "r2gen/r2gen", "lovt/pretraining"),
    *("ifcc/ifcc_likelihood", "ifcc/ifcc"),
}


def with_rivals(checkout: Checkout) -> Checkout:
    """The folder lies there; no configuration names it."""
    skip = shutil.ignore_patterns("__pycache__", "tests")
    shutil.copytree(RIVALS, checkout.folder / "rivals", ignore=skip)
    return checkout


def said(jobs: list[Job]) -> list[tuple[str, list[str], list[str]]]:
    """What tells the jobs of two plans apart, in one order."""
    return sorted((job.rule, job.input, job.output) for job in jobs)


def test_a_folder_that_nobody_names_changes_no_job(checkout: Checkout) -> None:
    """The workflow of this fixture has no such folder, and is whole."""
    without = checkout.plan()
    assert without and said(with_rivals(checkout).plan()) == said(without)


def test_beside_a_finished_run_the_rivals_alone_are_made(checkout: Checkout) -> None:
    """With the overlay the rivals' models are trained, and no other is trained again."""
    left = [f"results/models/{name}/seed0/run.json" for name in STARTS]
    left.append("results/cohorts/biovil_t/mimic_cxr/pairs.parquet")
    as_if_finished(checkout, *left)
    rivals = with_rivals(checkout).with_overlay(OVERLAY)
    assert rivals.plan(*left) == []
    tables = [f"results/tables/{name}/headline/{table}.html" for name, table in TABLES.items()]
    jobs = rivals.plan(*tables)
    assert models_of(jobs) == MODELS
    made = [path for job in jobs for path in job.output]
    assert {*tables} <= {*made}
    assert not [path for path in made if (checkout.folder / path).exists()]


def test_the_papers_own_sizes_are_planned(checkout: Checkout, tmp_path: Path) -> None:
    """At the scale `paper` from published weights: CLIP's own encoders, BERTs, ResNets."""
    values = {"scale": "paper", "seeds": [0], "papers": PAPERS, "extent": "headline"}
    weights = {}
    bert = ("config.json", "model.safetensors", "vocab.txt")
    for name, files in {
        "low_data/bert_base": bert,
        "biovil/clinical_bert": bert,
        "cxr_repair/clip_released": ("clip_vit_b32.pt", "bpe_simple_vocab_16e6.txt.gz"),
    }.items():
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file in files:
            (folder / file).write_text("{}", encoding="utf-8")
        weights[name] = str(folder)
    trunk = tmp_path / "resnet101-63fe2227.pth"
    trunk.touch()
    weights |= dict.fromkeys(("r2gen/resnet101", "chexrelnet/resnet101"), str(trunk))
    weights["convirt/imagenet_pretraining"] = str(tmp_path / "resnet50-0676ba61.pth")
    Path(weights["convirt/imagenet_pretraining"]).touch()
    rivals = with_rivals(checkout).write("paper_sizes.yaml", {**values, "weights": weights})
    jobs = rivals.plan()
    assert models_of(jobs) == MODELS | {"radnli_baseline/classifier"}
    imported = {job.wildcards["model"] for job in jobs if job.rule == "import_weights"}
    assert imported == {*weights}


def test_rows_stand_in_the_tables_that_quote_them(checkout: Checkout) -> None:
    """`snakemake biovil_t` shows them beside its own, where the overlay names their papers."""
    quoting = ("biovil/table3", "biovil/table7", "biovil_t/table2", "biovil_t/table3")
    tables = [f"results/tables/{table}.html" for table in quoting]

    def rivals_in(plan: list[Job]) -> set[str]:
        read = [path for job in plan if job.rule == "make_table" for path in job.input]
        models = {name for path in read for name in TABLES if f"/{name}/" in path}
        return models | {"radnli_baseline" for path in read if "/low_data/bert_base/" in path}

    whole = with_rivals(checkout)
    assert rivals_in(whole.plan(*tables)) == set()
    assert rivals_in(whole.with_overlay(OVERLAY).plan(*tables)) == {*TABLES}
