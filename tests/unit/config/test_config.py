"""Configuration: what is accepted, what is printed, and the one line that says what is wrong."""

import json
import re
from pathlib import Path

import pytest
import yaml
from config_overlays import COMPARISONS, DEMO, OPEN_I, ROOT, nested, real

from command_options import options
from cxr_files.errors import InputError
from cxr_hospital.settings import FollowedSettings, HospitalSettings
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config import load_config, make_config
from cxrflow.config.__main__ import main
from cxrflow.config.checks import RESERVED
from cxrflow.config.parts import RULES
from cxrflow.config.problems import unknown
from cxrflow.reports.settings import EntityTaggerSettings

NAN, INF = float("nan"), float("inf")


def test_the_demo_is_valid_and_synthetic(demo):
    assert demo.data.drawn(*demo.datasets)
    assert demo.models["biovil/biovil"].trainable and demo.values.extent == "headline"
    hospital = HospitalSettings(followed=FollowedSettings(), radnli_pairs=480)  # as published
    assert demo.values.synthetic_hospital == hospital


def test_the_paper_overlay_is_real(monkeypatch):
    monkeypatch.setenv("CXR_DATA", "/data")
    config = load_config([DEMO, ROOT / "paper.yaml"], check_roots=False)
    assert (config.values.scale, config.values.extent, config.values.results) == (
        "paper",
        "all",
        "results/paper",
    )
    assert config.values.datasets["ms_cxr"].root == "/data/ms-cxr/0.1"
    assert "ms_cxr" in config.data.absent and config.datasets == []
    assert str(config.values.reports.typo_list).endswith(
        "farrell236-mimic-cxr/txt/section_parser.py"
    )
    # At full size a model that reads images in a benchmark wants a GPU, and all want memory.
    resources = config.values.resources
    for name, benchmark in ((name, BENCHMARKS.named(name)) for name in BENCHMARKS):
        rule = "evaluate" if benchmark.needs else "measure_data"
        asked = resources.get(name, resources[rule])
        assert asked.mem_mb >= 16_000 and asked.runtime >= 60, name
        assert asked.gpu or benchmark.reads != "pixels" or not benchmark.needs, name


@pytest.mark.parametrize(
    ("path", "value", "message"),  # of which {} is the key that is called as its path
    [
        ("pixel", {}, "unknown {}"),
        ("reports.splittr", 1, "unknown {}"),
        ("reports.entities.step", 1, "unknown {}"),
        ("resources.evaluate.gpus", 1, "unknown {}"),
        ("seeds", "one", "{} is 'one'"),
        ("seeds", [1, 1], "{}: [1, 1] names a seed twice"),
        ("seeds", [True], "'seeds' is [True]; expected numbers, not true or false"),
        ("pixels.max_seconds", True, "'max_seconds' is True; expected numbers, not true or false"),
        ("seeds", [-1], "key 'seeds.0' is -1: Input should be greater than or equal to 0"),
        ("seeds", [10**29], "key 'seeds.0' is 1000"),
        # Names are parts of paths, of patterns and of command lines.
        *(
            ("datasets", {name: OPEN_I}, f"key 'datasets.{name}.[key]' is {name!r}: expected a na")
            for name in ("rsna+nih", "../evil", "a b", "-x", ".hidden", "a/b")
        ),
        ("datasets", {"": OPEN_I}, "key 'datasets..[key]' is '': expected a name of letters"),
        ("datasets", {"x" * 200: OPEN_I}, "should have at most 100 characters"),
        ("pathvars.results", "a{b}", "{} is 'a{b}': String should"),
        ("pathvars.results", "", "{} is ''"),
        # Sizes that no machine has, numbers that are none.
        (
            "resources",
            {"evaluat": {}},
            "{}: 'evaluat' is not known; there are",
        ),
        (
            "resources.curation_statistics.retries",
            3,
            "{}: its jobs are tried again as often as 'resources.measure_data.retries' says; "
            "expected it there alone",
        ),
        ("resources.linear_probe.retries", 3, "'resources.linear_probe.retries'"),
        ("resources.build_pairs.nodes", 2, "'resources.build_pairs.nodes': only train"),
        ("resources", {"biovil/simcl": {}}, "{}: 'biovil/simcl' is not known; there are"),
        (
            "resources",
            {"biovil_t/imagenet": {}},
            "resources.biovil_t/imagenet' is no training; its",
        ),
        ("resources", {"biovil/simclr": {"retries": 3}}, "by 'resources.pretrain_image.retries'"),
        ("resources.evaluate.threads", 10**9, "{} is 100000"),
        ("resources.evaluate.threads", 0, "{} is 0"),
        ("resources.evaluate.mem_mb", 10**12, "{} is 100"),
        ("synthetic_hospital.ap_share", NAN, "{} is nan: Input should be a finite number"),
        ("cohorts.biovil/mimic_cxr.splits.shares.train", NAN, "is nan: Input should be a finite"),
        ("models.biovil/biovil.training.save_minutes", INF, "{} is inf: Input should be a finite"),
        # Parts of a cohort.
        ("tasks.biovil/linear_probe.split", "x", "{} is 'x': Input should be 'train', 'valid"),
        (
            "tasks.biovil/phrase_grounding.split",
            "train",
            "{} is 'train', but all of cohort 'biovil/ms",
        ),
        ("extent", "some", "{} is 'some': Input should be 'headline' or 'all'"),
        ("scale", "huge", "{}: 'huge' is not known; there are demo, paper, study"),
        ("papers", ["bio"], "{}: 'bio' is not known; there are across, biovil,"),
        ("papers", ["biovil", "biovil"], "{}: two are called 'biovil'"),
        ("papers", ["/no/such.yaml"], "{}: /no/such.yaml: cannot be read"),
        # Names of parts of papers, which are names in full, and what is laid over them.
        (
            "models",
            {"biovil": {}},
            "{}: 'biovil' is not known; there are",
        ),
        ("tasks", {"biovil/x": {}}, "{}: 'biovil/x' is not known"),
        ("cohorts", {"biovil/x": None}, "{}: 'biovil/x' is not known"),
        ("vocabularies", {"x": {}}, "{}: 'x' is not known"),
        ("weights", {"x": "/w"}, "{}: 'x' is not known"),
        ("models.biovil/biovil.training.momentum", 1, "unknown {}"),
        ("tasks.biovil/linear_probe.fractions", "x", "{} is 'x'"),
        ("cohorts.biovil/rsna.views", [], "{} is []"),
        ("vocabularies.biovil/cxr_bert.size", 1, "{} is 1"),
        # Data sets.
        ("datasets.x.synthetic", True, "key 'datasets.x.layout': layout 'x' is unkno"),
        ("datasets.x", {"layout": "x", "root": "/"}, "key 'datasets.x.layout': layout 'x'"),
        ("datasets.rsna.synthetic", False, "'datasets.rsna': set either 'root' (real"),
        (
            "datasets.covid_chestxray",
            {"synthetic": True},
            "{}: no synthetic copy is drawn; expected a root",
        ),
        (
            "datasets.rsna.root",
            "/data/rsna",
            "{} is '/data/rsna': no such folder; expected the rsna data set",
        ),
        (
            "datasets.x",
            {"layout": "rsna", "root": "${CXR_UNSET}/rsna"},
            "key 'datasets.x.root' needs the environment variable CXR_UNSET, which is not set",
        ),
        (
            "datasets.x",
            {**OPEN_I, "in_place_of": "mimic"},
            "key 'datasets.x.in_place_of': no paper names 'mimic'; they name captioned_pictures,",
        ),
        (
            "datasets",
            {n: {"layout": "rsna", "root": f"/{n}", "in_place_of": "rsna"} for n in "ab"},
            "key 'datasets.b.in_place_of': 'rsna' is replaced by 'a' already, and not only pairs",
        ),
        (
            "datasets",
            {
                "a": {"layout": "chexpert_plus", "root": "/a", "in_place_of": "mimic_cxr"},
                "b": {
                    **{"layout": "hospital", "root": "/b", "in_place_of": "mimic_cxr"},
                    **{"people": ["chexpert"], "ids": "chexpert"},
                },
            },
            "key 'datasets.b.in_place_of' has people of 'a', which stands in the same place",
        ),
        (
            "datasets",
            {name: {"layout": "rsna", "root": root} for name, root in (("a", "/x"), ("b", "/x/."))},
            "key 'datasets.b.root' is '/x/.', which is that of 'a'; expected one name for it",
        ),
        ("cohorts.biovil/rsna.dataset", "x", "{}: 'x' is not known; there are captioned_pictures"),
        ("cohorts.biovil/ms_cxr.images", "x", "{}: 'x' is not known"),
        ("cohorts.biovil/mimic_cxr.held_out", ["ms_cxr", "x"], "{}: 'x' is not known; there are"),
        *(
            (
                f"cohorts.{name}.{field}",
                value,
                f"'cohorts.{name}': {field} of a cohort of kind {kind}",
            )
            for name, field, value, kind in (
                ("biovil/ms_cxr", "held_out", ["ms_cxr_t"], "grounding: expected none"),
                ("biovil/radnli", "held_out", ["ms_cxr"], "nli: expected none"),
                ("convirt/retrieval_8x200", "held_out", ["chexpert"], "retrieval: expected none"),
                ("biovil/mimic_cxr", "training", "chest_imagenome", "pairs: expected none"),
            )
        ),
        ("cohorts.biovil_t/progression.training", "x", "{}: 'x' is not known; there are"),
        ("vocabularies.biovil/cxr_bert.documents", ["x"], "{}: 'x' is not known"),
        # What would change nothing.
        (
            "cohorts.biovil/rsna.splits",
            {"shares": {"train": 0.7, "validate": 0.0, "test": 0.3}},
            "key 'cohorts.biovil/rsna.splits.shares' is not read by method ordered, which the",
        ),
        (
            "cohorts.biovil/radnli.views",
            ["PA"],
            "key 'cohorts.biovil/radnli': views of a cohort of kind nli: expected its default",
        ),
        # What is read as text, and by whom.
        (
            "vocabularies.biovil/cxr_bert.documents",
            ["rsna"],
            "key 'datasets.rsna' has the layout rsna, which has no text, but biovil reads it as",
        ),
        (
            "vocabularies.biovil/cxr_bert.documents",
            ["open_i"],
            "key 'cohorts': 'open_i' is a set of reports that biovil reads as text, but no cohort",
        ),
        (
            "cohorts.biovil/radnli",
            {"dataset": "rsna", "kind": "classification"},
            "key 'tasks.biovil/natural_language_inference': cohort 'biovil/radnli' is of kind "
            "classification, but natural_language_inference needs one of kind nli",
        ),
        (
            "cohorts.biovil/mednli",
            {"dataset": "rsna", "kind": "classification"},
            "cohort 'biovil/mednli' is of kind classification",
        ),
        # Demographics.
        (
            "datasets.x",
            {"layout": "rsna", "synthetic": True, "in_place_of": "mimic_iv"},
            "key 'tasks.biovil/ms_cxr_statistics.demographics': 'x' has the layout rsna",
        ),
        (
            "datasets",
            real("mimic_iv"),
            "key 'datasets.mimic_iv' is real, but the patients of 'ms_cxr' are synthetic; expected",
        ),
        # Files and folders.
        ("reports.stanza_folder", "/x", "{} is '/x': no such fol"),
        ("reports.entities.stanza_folder", "/x", "{} is '/x': no such folder"),
        ("reports.typo_list", "/x.csv", "{} is '/x.csv': no such file"),
        (
            "cohorts.biovil/rsna.splits",
            {"method": "file", "file": "/x.csv"},
            "key 'cohorts.biovil/rsna.splits.file' is '/x.csv': no such file",
        ),
        (
            "tasks.convirt/rsna_linear.lists",
            {"1": "/x.txt"},
            "key 'tasks.convirt/rsna_linear.lists.1' is '/x.txt': no such file",
        ),
        # Given labels.
        (
            COMPARISONS,
            [{"dataset": "rsna", "reference": "mine", "file": "x.csv"}],
            "{}: 'rsna' is no data set of reports; there are captioned_pictures",
        ),
        (
            COMPARISONS,
            [{"dataset": "mimic_cxr", "reference": "terms"}],
            "{}: 'terms' of 'mimic_cxr' has no 'file'; without one expected "
            "chexpert, negbio, radiologist (layout mimic_cxr) or terms (layout open_i)",
        ),
        (
            COMPARISONS,
            [{"dataset": "mimic_cxr", "reference": "negbio"}] * 2,
            "{}: 'negbio' of 'mimic_cxr' stands there twice",
        ),
        (
            COMPARISONS,
            [{"dataset": "mimic_cxr", "reference": "mine", "file": "/no/such.csv"}],
            "{} is '/no/such.csv': no such file",
        ),
        (
            COMPARISONS,
            [{"dataset": "mimic_cxr", "reference": "my/own", "file": "x.csv"}],
            f"key '{COMPARISONS}.0.reference' is 'my/own': expected a name of letters",
        ),
        (COMPARISONS, "all", "{} is 'all': Input shou"),
    ],
)
def test_a_mistake_is_one_line_that_names_key_and_file(overlay, path, value, message):
    values, message = nested(path, value), message.replace("{}", f"key '{path}'")
    if value == ["open_i"]:
        values["datasets"] = {"open_i": OPEN_I}
    with pytest.raises(InputError) as error:
        overlay(values)
    file, _, said = str(error.value).partition(": ")
    assert said.startswith(message) or message in said
    # A data set's own entry, or the papers' list, may stand in the file below.
    assert file.endswith(("overlay.yaml", "config.yaml")) and "\n" not in said


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scale": "a\0b"}, "key 'scale' holds a NUL character"),
        ({"scale": "\ud800"}, "key 'scale' holds half a surrogate pair"),
        ({"seeds": [10**5000]}, "key 'seeds.0' is a number of thousands of digits: Input should"),
        ({"scale": ["x" * 1000]}, f"key 'scale' is ['{'x' * 198}...: "),
    ],
)
def test_what_a_file_cannot_hold_is_refused_where_snakemake_has_read_it(values, message):
    with pytest.raises(InputError) as error:
        make_config({**yaml.safe_load(DEMO.read_text()), **values}, [DEMO])
    assert str(error.value).startswith(f"{DEMO}: {message}")


def test_a_data_set_without_its_labels_is_named_and_not_a_key_that_nobody_wrote(overlay, tmp_path):
    root = tmp_path / "jpg"
    root.mkdir()
    message = re.escape(
        f"key 'datasets.mimic_cxr_jpg.root' is '{root}': mimic-cxr-2.0.0-chexpert.csv is not there"
    )
    with pytest.raises(InputError, match=message):
        overlay({"datasets": dict.fromkeys(("mimic_cxr", "mimic_cxr_jpg"), {"root": str(root)})})


def test_the_rules_of_the_workflow_are_listed():
    """Those that ask for resources; others are RESERVED, and neither can be a paper's name."""
    text = "".join(path.read_text() for path in [ROOT / "Snakefile", *ROOT.glob("rules/**/*.smk")])
    names = re.findall(r"^(?:rule|use rule \w+ as) (\w+)", text, re.MULTILINE)
    names += re.findall(r'^    "(\w+)": [{(]', text, re.MULTILINE)  # of rules in a loop
    assert set(names) - RESERVED == set(RULES) - {"label_agreement"}


def test_the_file_named_is_the_one_that_holds_the_key(tmp_path):
    base = yaml.safe_load(DEMO.read_text())
    base["models"] = {"biovil/biovil": {"lenght": 1}}
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(yaml.safe_dump(base))
    second.write_text("models: {biovil/biovil: {length: 32}}\n")
    with pytest.raises(InputError, match="first.yaml: unknown key 'models.biovil/biovil.lenght'"):
        load_config([first, second])


@pytest.mark.parametrize("text", ["pixels: [", "- a\n- b\n"])
def test_a_file_that_is_no_mapping_is_named(tmp_path, text):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="broken.yaml: "):
        load_config([DEMO, path])
    with pytest.raises(InputError, match="absent.yaml: cannot be read"):
        load_config([tmp_path / "absent.yaml"])


def test_values_from_snakemake_need_no_file():
    values = yaml.safe_load(DEMO.read_text())
    assert make_config(values, []).values.seeds == [0]
    with pytest.raises(InputError, match="configuration: unknown key 'nothing'"):
        make_config(values | {"nothing": 1}, [])


def test_values_are_typed_as_for_snakemake(capsys):
    main(["check", "--configfile", str(DEMO), "--config", "papers=[convirt]", "seeds=[3]"])
    assert "papers convirt" in capsys.readouterr().out
    assert load_config([DEMO], typed=["seeds=[3]"]).values.seeds == [3]
    for typed, message in (
        ("papers", "expected KEY=VALUE"),
        ("papers=[biovil", "expected KEY=VALUE"),
        ("paprs=[biovil]", "--config: unknown key 'paprs'; did you mean 'papers'"),
        ("seeds=[0, x]", "--config: key 'seeds.1'"),
        (
            "privacy={show_image: true}",
            "unknown key 'privacy.show_image'; did you mean 'show_images'",
        ),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            load_config([DEMO], typed=[typed])


def test_programs_of_reports_get_their_own_part(demo):
    """The corpus does not depend on how a splitter is trained, nor on entities."""
    settings = demo.values.reports.settings().record()
    assert not {"sentence_splitter", "stanza_folder", "entities"} & set(settings)
    assert demo.values.reports.entities.training == EntityTaggerSettings()


def test_show_prints_yaml_that_is_complete(demo, capsys):
    main(["show", "--configfile", str(DEMO)])
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["synthetic_hospital"]["ap_share"] == 0.55
    assert shown["tasks"]["biovil/linear_probe"]["settings"]["solver"]["tolerance"] > 0
    main(["show", "--configfile", str(DEMO), "--model", "biovil/biovil"])
    shown = yaml.safe_load(capsys.readouterr().out)
    settings = demo.models["biovil/biovil"].settings.record()
    assert shown["settings"] == settings and shown["geometry"] == "shorter128"
    with pytest.raises(InputError, match="model: 'nothing' is not known; there are"):
        main(["show", "--configfile", str(DEMO), "--model", "nothing"])


def test_check_says_what_it_checked(capsys):
    main(["check", "--configfile", str(DEMO)])
    assert "config.yaml: valid; scale demo, papers biovil, " in capsys.readouterr().out


def test_a_file_lies_over_that_of_the_checkout_as_for_snakemake(monkeypatch, tmp_path, capsys):
    mine = tmp_path / "mine.yaml"
    mine.write_text("papers: [convirt]")
    monkeypatch.chdir(DEMO.parent)
    for files in ([mine], [DEMO, mine], [Path("config.yaml"), mine]):
        main(["check", "--configfile", *map(str, files)])
        said = capsys.readouterr().out
        assert said.count("config.yaml") == 1
        assert "config.yaml + " in said and f"{mine}: valid; scale demo, papers convirt, " in said
    monkeypatch.chdir(tmp_path)
    main(["check", "--configfile", str(DEMO)])
    assert capsys.readouterr().out.startswith(f"{DEMO}: valid")


def test_record_keeps_values_and_what_they_were_laid_over(demo, tmp_path):
    values, output = yaml.safe_load(DEMO.read_text()), tmp_path / "c.json"
    files = ["config.yaml", "mine.yaml"]
    main(["record", *options(values=values, output=output, configfile=files)])
    resolved = {"values": demo.values.model_dump(mode="json"), "resolved": demo.resolved()}
    assert json.loads(output.read_text()) == {**resolved, "configfiles": files}


@pytest.mark.parametrize(
    ("papers", "task", "settings", "message"),
    [
        ("medcutmix", "nih", {"classes": ["Hernia", "Efusion"]}, "classes': names 'Efusion'; exp"),
        ("medcutmix", "nih", {"uncertain": {"Mas": "one"}}, "some of nih's Atelectasis, Cardiom"),
        ("low_data", "probe", {"classes": ["Edemaa"]}, "some of CheXpert's No Finding, Enlarged"),
        ("own_data", "zero_shot_findings", {"classes": ["Edemaa"]}, "some of CheXpert's No Findin"),
    ],
)
def test_a_class_without_labels_is_said_before_anything_runs(
    overlay, papers, task, settings, message
):
    with pytest.raises(InputError, match=message):
        overlay({"papers": [papers], "tasks": {f"{papers}/{task}": settings}})


def test_of_many_names_the_most_alike_are_said():
    many = [f"name{number}" for number in range(200)]
    assert unknown("nam", many[:2]) == "'nam' is not known; there are name0, name1"
    assert unknown("name12x", many).startswith(
        "'name12x' is not known; there are 200 of other names, name12"
    )
    assert unknown("other", many) == "'other' is not known; there are 200 of other names"
    assert len(unknown("name1", many)) < 120
