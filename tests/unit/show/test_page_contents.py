"""The page: what it says and what it hides."""

import json
import posixpath
import re
import shutil
from pathlib import Path

import pytest
import yaml
from config_overlays import table_of
from html_outline import Outline
from page_fixtures import REAL, ROOT, build, edit, load, pages, words, write_record, write_results
from page_score_fixtures import write_table

from command_options import options
from cxr_files.atomic import CHECKSUMS, read_json, write_json
from cxr_files.errors import InputError
from cxrflow.show.page import page
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.page.make_page import main
from cxrflow.show.page.next_steps import NextStep, next_steps
from cxrflow.show.page.page import build_pages
from cxrflow.show.page.paper_tables import OUTSIDE
from cxrflow.show.tables.text import write_texts

IDS = "50000001"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    root = tmp_path_factory.mktemp("real")
    write_results(root, load(**REAL), overlays=["real.yaml"])
    return root


@pytest.fixture(scope="module")
def built(synthetic) -> dict[str, str]:
    return pages(synthetic)


def test_each_page_is_well_formed_and_loads_nothing(built):
    assert [*built] == [
        "index_files/biovil.html", "index_files/data-and-trainings.html", "index.html",
    ]  # fmt: skip
    for html in built.values():
        outline = Outline(html)
        assert outline.open == []
        assert len(outline.ids) == len(set(outline.ids))
        for image in outline.of("img"):
            assert image["src"].startswith("data:image/webp;base64,") and image["alt"]
        assert "http://" not in html
        assert html.count("https://") == html.count('<a href="https://arxiv.org/abs/2204.09817">')
        assert "default-src 'none'" in html
        assert len(html.encode()) < page.LARGEST


def test_every_link_leads_to_what_is_there(built):
    ids = {path: set(Outline(html).ids) for path, html in built.items()}
    led_to = set()
    for path, html in built.items():
        for link in Outline(html).of("a"):
            if link["href"].startswith("https://"):
                continue
            file, _, part = link["href"].partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), file or "."))
            target = target if file else path
            assert target in built and (not part or part in ids[target]), link
            led_to.add(target)
    assert led_to == {*built}


def test_headings_go_down_one_level_at_a_time(built):
    for html in built.values():
        tags = [tag for tag, _ in Outline(html).elements]
        levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))


def test_the_first_page_is_short(tmp_path):
    """However many papers there are, their tables and trainings lie beside it."""
    config = load(papers=["biovil", "biovil_t", "convirt", "low_data", "medcutmix"])
    write_record(tmp_path, config)
    front = words(pages(tmp_path)["index.html"].partition("</style>")[2].partition("<script")[0])
    assert 300 < len(front.split()) < 2500
    for paper in config.values.papers:
        claim = config.library.chosen[paper].orderings[0].claim
        assert " ".join(claim.split()) in " ".join(front.split())
    assert "None of five leading claims has been measured yet" in front


def test_it_shows_numbers_curves_tables_and_pictures(html):
    for expected in (
        "Making the Most of Text Semantics", "0.871", "1.270", "0.243",  # headline numbers
        "227,835", "no impression (findings only)", "held-out patients not trained on",
        "Masked language modelling", "Radiology section matching", "Global alignment",
        'id="biovil-table5"', "ROC curves: biovil AUROC 0.871", "bi-bas-ilar",
        "Small right apical pneumothorax", ">controls</span>",
    ):  # fmt: skip
        assert expected in html, expected
    assert len(Outline(html).of("img")) == 9 + 3  # of the leading model, some on the first page


def speed_row(html: str, model: str) -> list[str]:
    """The cells of a model's row in the table of speeds, seed 0."""
    table = html.partition('id="runs-title"')[2].partition("</table>")[0]
    link = f'<a href="biovil.html#model-biovil-{model}">'
    (row,) = re.findall(rf'<tr><th scope="row">{link}.*?</tr>', table)
    return [re.sub("<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]


def test_the_speed_of_a_training(results):
    facts = {"flops_per_second": 4.19e14, "mfu": 0.4237, "data_wait_share": 0.021}
    edit(results / "models/biovil/cxr_bert/seed0/run.json", **facts)
    on_cpu = {"flops_per_second": 5.2e9, "mfu": None, "data_wait_share": 0.021}
    edit(results / "models/biovil/simclr/seed0/run.json", **on_cpu)
    html = build(results)
    assert speed_row(html, "cxr_bert")[5:] == [
        "1.9 min", "413", "18,450", "419,000", "42 %", "2.1 %", "1,184 MB",
    ]  # fmt: skip
    assert speed_row(html, "simclr")[7:] == ["–", "5.2", "–", "2.1 %", "1,184 MB"]


def test_runs_from_before_speed_was_counted_can_be_shown(results):
    path = results / "models/biovil/biovil/seed0/run.json"
    found = read_json(path)
    write_json(path, {key: value for key, value in found.items() if key != "precision"})
    assert speed_row(build(results), "biovil")[8:] == ["–", "–", "–", "1,184 MB"]


def test_the_same_inputs_give_the_same_page(html, synthetic):
    assert build(synthetic) == html


def test_synthetic_data_cannot_be_missed(html, real):
    assert 'class="ribbon"' in html
    assert 'class="note real"' not in html
    html = build(real)
    assert 'class="ribbon"' not in html
    assert "small data proves the path, not the science" in html


def test_real_data_keep_their_ids_and_the_machine_its_folders(real):
    html = build(real)
    assert IDS not in html
    assert "/data/public" not in html and "…/open_i" in html
    assert "Not trained, since this configuration gives them no data: clinical_bert" in html


def relabelled(root: Path, synthetic: bool = False, **privacy: object) -> Path:
    """Say of every product that its data are real, and set ``privacy:``."""
    record = read_json(root / "report/config.json")
    record["values"]["privacy"] |= privacy
    for dataset in filter(None, record["values"]["datasets"].values()):
        dataset |= {"synthetic": synthetic, "root": None if synthetic else "/data"}
    write_json(root / "report/config.json", record)
    for path in [*root.rglob("flow.json"), *root.rglob("corpus.json")]:
        write_json(path, read_json(path) | {"synthetic": synthetic})
    for path in root.rglob("metrics.json"):
        found = read_json(path)
        found["data"]["synthetic"] = synthetic
        write_json(path, found)
    for path in root.rglob(CHECKSUMS):  # the changes are meant
        path.unlink()
    return root


PHRASE = "Small right apical pneumothorax"
SENTENCE = "Findings suggestive of pneumonia."


def test_radiographs_phrases_and_sentences_of_real_data_are_not_shown(results):
    assert SENTENCE in build(results)
    html = build(relabelled(results))
    assert Outline(html).of("img") == []
    assert PHRASE not in html and IDS not in html and SENTENCE not in html
    assert "The sentences are not shown: they are of real reports" in html
    assert "Example pictures of biovil are not shown" in html
    assert "ROC curves" in html


def test_allowed_radiographs_come_without_phrases_unless_those_are_allowed_too(results):
    html = build(relabelled(results, show_images=True))
    assert len(Outline(html).of("img")) == 9 + 3
    assert PHRASE not in html
    assert "This page shows radiographs of real data" in html
    both = build(relabelled(results, show_images=True, show_text=True))
    assert PHRASE in both and SENTENCE in both and "radiographs and report text" in both


def test_synthetic_radiographs_can_be_forbidden_too(results):
    html = build(relabelled(results, synthetic=True, show_images=False))
    assert Outline(html).of("img") == []
    assert "the configuration forbids it" in html


def test_privacy_rules():
    auto, other = load(), load(privacy={"show_images": True, "show_text": False})
    for what in ("images", "text"):
        assert auto.values.privacy.permits(what, True) and not auto.values.privacy.permits(
            what, False
        )
    assert other.values.privacy.permits("images", False) and not other.values.privacy.permits(
        "text", True
    )


def test_several_seeds_and_controls(tmp_path):
    write_results(tmp_path, load(seeds=[0, 1, 2]), controls=True)
    html = build(tmp_path)
    assert "over 3 seeds" in html
    assert 'id="model-biovil-biovil_shuffled_pairs"' in html and "(control)" in html
    assert "Run the controls" not in html and "Three training seeds" not in html


def commands(root: Path) -> str:
    return "\n".join(step.code for step in steps_of(root))


def steps_of(root: Path) -> list[NextStep]:
    return [*next_steps(RunFolder.read(root / "report/config.json", root), None)]


def test_commands_name_the_overlays_of_the_run(results):
    write_record(results, load(), overlays=["mine.yaml", "/home/me/se cret/other.yaml"])
    said = commands(results)
    over = " --configfile mine.yaml '…/other.yaml'"
    assert f"snakemake --cores all controls{over}\n" in said
    assert f"snakemake --cores all --forcerun make_page{over}\n" in said
    assert f"--config 'seeds=[0,1,2]'{over}\n" in said
    assert f"tables/biovil/table5.html{over}\n" in said
    assert "/home/me" not in build(results)


def test_hints_of_the_page_name_the_overlays_of_the_run(results):
    config = load(extent="headline")
    write_record(results, config, overlays=["mine.yaml"])
    shutil.rmtree(results / "benchmarks/label_agreement")
    said = words(build(results))
    over = " --configfile mine.yaml"
    assert f"cores all biovil --config 'seeds=[0,1,2]'{over}" in said
    assert f" snakemake --cores all biovil{over} makes them" in said
    assert f"snakemake --cores all labels{over}" in said


def test_a_page_of_the_headline_shows_no_more_and_says_how_to_make_the_rest(results):
    config = load(extent="headline")
    write_record(results, config)
    for table in config.results["biovil"].tables():
        write_table(results, config, "biovil", table)
    html = build(results)
    assert "Not in the headline: Table 1, Table 3, Table 4, Table A.1" in html
    assert 'id="biovil-table5"' in html and 'id="biovil-table4"' not in html
    assert "more rows with published values alone; ours by <code>snakemake" in html
    assert "Asked for: the headline rows of" in html
    assert "The paper claims 16 rankings of methods. They need every row" in html
    assert 'id="model-biovil-simclr"' in html and 'id="model-biovil-gloria"' not in html
    assert 'id="cohort-biovil-rsna"' in html and 'id="cohort-biovil-radnli"' not in html
    write_record(results, load(papers=["biovil", "low_data"], extent="headline"))
    said = words(build(results))
    assert "Asked for: the headline rows of BioViL, Low-data study. Made:" in said
    write_record(results, config)
    steps = steps_of(results)
    assert steps[0].code == "snakemake --cores all biovil"
    with pytest.raises(InputError, match="'biovil=some' given, expected <paper>=headline or"):
        RunFolder.read(results / "report/config.json", results, ["biovil=some"])


def test_papers_are_chapters_and_nothing_is_shown_twice(paper, tmp_path):
    table = table_of("biovil/phrase_grounding", "cnr", "mine", "biovil/biovil")
    mine = {"models": {"mine": {"extends": "biovil/biovil"}}, "tables": {"t": table}}
    write_results(tmp_path, load(papers=["biovil", paper(mine)]))
    both = pages(tmp_path)
    assert 'id="paper-biovil"' in both["index_files/biovil.html"]
    chapter = both["index_files/mine.html"]
    assert 'id="paper-mine"' in chapter and 'id="mine-t"' in chapter
    assert 'id="model-mine-mine"' in chapter and 'id="model-biovil-biovil"' not in chapter
    assert re.search("<b>mine</b> .*, from cxr_bert and simclr", chapter)
    ours, alone = (pages(tmp_path, [f"{one}=all"]) for one in ("biovil", "mine"))
    assert "index_files/mine.html" not in ours
    assert 'id="model-biovil-biovil"' in alone["index_files/mine.html"]


def test_results_of_a_paper_that_leads_with_nothing_are_not_called_missing(paper, tmp_path):
    """The first task is of all of PadChest's classes, which no single curve shows."""
    table = table_of("medcutmix/padchest", "auroc", "biovil/biovil")
    rsna = {"key": "b", "label": "RSNA", "metric": "auroc", "task": "medcutmix/rsna"}
    table["columns"].append(rsna)
    write_results(tmp_path, load(papers=[paper({"tables": {"t": table}})]))
    html = build(tmp_path)
    assert "No number that a paper leads with is there yet" not in html
    assert "has not been evaluated yet" not in html
    curve = html.partition('id="mine-classification"')[2].partition("</article>")[0]
    assert "“pneumonia”, “no pneumonia”" in curve and "<svg" in curve
    shutil.rmtree(tmp_path / "tables")
    assert "No number that a paper leads with is there yet" in build(tmp_path)


def test_a_hospital_reads_what_its_model_finds_without_labels(tmp_path):
    text = (ROOT / "hospital.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text.replace("${CXR_HOSPITAL}", "/data/own"))
    values.pop("pathvars")
    write_results(tmp_path, load(**values), overlays=["hospital.yaml"])
    html = build(tmp_path)
    leads = html.partition('id="own_data-retrieval"')[0]
    assert "Reports found (R@10)" in leads and "Zero-shot AUROC" in leads
    assert 'id="own_data-findings"' in html and "A random order" in html
    assert "on real data" in html and "/data/own" not in html


def test_commands_without_overlays_name_none(synthetic):
    assert "snakemake --cores all controls\n" in commands(synthetic)
    assert "table5.html\n" in commands(synthetic)


def test_commands_fit_what_the_run_has_data_for(real, tmp_path):
    said = commands(real)
    assert "snakemake --cores all controls --configfile real.yaml\n" in said
    assert "make real" not in said
    assert "table5.html" not in said  # no cohort of phrases or classes
    assert ".html --configfile real.yaml\n" in said
    images = dict.fromkeys(("mimic_cxr_jpg", "ms_cxr", "rsna", "radnli", "mednli"))
    cohorts = {f"biovil/mimic_cxr{more}": None for more in ("", "_more", "_raw")}
    reports = {"biovil/mimic_cxr_reports": {"images": None, "require": ["impression"]}}
    only_text = load(datasets=images, cohorts=cohorts | reports)
    write_results(tmp_path, only_text, overlays=["text.yaml"])
    titles = {step.title for step in steps_of(tmp_path)}
    assert "One stage or one table" in titles
    assert "Run the controls" not in titles and "Three training seeds" not in titles


def test_missing_parts_are_said(results):
    for folder in ("benchmarks", "models", "cohorts", "corpus", "vocabulary", "tokens", "tables"):
        shutil.rmtree(results / folder)
    html = build(results)
    assert Outline(html).open == []
    for said in (
        "No number that a paper leads with is there yet", "This cohort has not been made",
        "Its text has not been processed", "No training has finished yet",
        "This table has not been made", "No example pictures were drawn: not evaluated yet",
        "Zero-shot classification has not been evaluated yet",
        "This comparison has not been made",
    ):  # fmt: skip
        assert said in html, said


def test_a_task_that_draws_no_pictures_has_no_card(results):
    assert 'id="biovil-grounding"' in build(results)
    for listed in results.glob("benchmarks/biovil/phrase_grounding/**/examples.json"):
        listed.write_text("[]")
    html = build(results)
    assert 'id="biovil-grounding"' not in html and 'id="biovil-classification"' in html


def test_a_failed_check_stands_out(results):
    path = results / "cohorts/biovil/mimic_cxr/flow.json"
    flow = read_json(path)
    flow["checks"].append({"name": "image in one split", "passed": False, "detail": "2 in two"})
    write_json(path, flow)
    html = build(results)
    link = '<a href="index_files/biovil.html#cohort-biovil-mimic_cxr">mimic_cxr</a>'
    assert f"A check of the data failed: {link}" in html
    assert html.count("1 check failed") == 2 and "<b>FAILED</b> image in one split" in html


def test_the_tables_own_style_passes_the_check_for_outside_references(synthetic):
    for path in (synthetic / "tables/biovil").glob("*.html"):
        assert not OUTSIDE.search(path.read_text())


def test_the_program_writes_the_page_whole(html, synthetic, tmp_path):
    output = tmp_path / "deep/index.html"
    config = synthetic / "report/config.json"
    main(options(config=config, results=synthetic, output=output))
    beside = [output.parent / f"index_files/{n}.html" for n in ("data-and-trainings", "biovil")]
    assert sorted(output.parent.rglob("*.*")) == sorted([output, *beside])
    assert "".join(path.read_text(encoding="utf-8") for path in (output, *beside)) == html
    with pytest.raises(InputError, match="results folder not found"):
        build_pages(config, tmp_path / "nowhere", output)
    (tmp_path / "config.json").write_text(json.dumps({"scale": "demo"}))
    with pytest.raises(InputError, match="field 'values' is missing"):
        build_pages(tmp_path / "config.json", synthetic, output)


def test_an_imported_model_is_called_so_and_has_no_training(results):
    weights = {"biovil/cxr_bert": "/secret/place/CXR-BERT-general"}
    write_record(results, load(weights=weights))
    html = build(results)
    card = r'<details class="model" id="model-biovil-cxr_bert" (.*?)</pre>'
    (text,) = re.findall(card, html, re.S)
    assert "Text encoder, published weights." in text and "new_token_head: false" in text
    assert "Not trained yet" not in text and "learning_rate" not in text and "<svg" not in text
    other = re.search(r'id="model-biovil-biovil" (.*?)</summary>', html, re.S)
    assert other is not None and "from cxr_bert and simclr" in other[1]
    # Of a folder of the user's only the name is passed on.
    assert "/secret/place" not in html and "CXR-BERT-general" in html


def test_the_certificate_of_released_weights_stands_on_the_page_once_it_is_made(results):
    assert "The published weights" in {step.title for step in steps_of(results)}
    folder = results / "released"
    folder.mkdir()
    section = '<section class="paper-table" id="certificate">0.831 equal</section>'
    write_texts(str(folder / "certificate"), {".html": section})
    html = build(results)
    assert section in html and '<a href="#released">' in html
    assert "The published weights" not in {step.title for step in steps_of(results)}
    (folder / "certificate.html").write_text("<section>cut")
    with pytest.raises(InputError, match=r"certificate\.html: damaged, it does not end with"):
        build(results)
