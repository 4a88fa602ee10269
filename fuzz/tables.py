"""Lists, reports, archives and our own tables, damaged, through the programs that read them.

The sound ones are a small synthetic hospital in every layout, a corpus, documents, a cohort and a
result of ours, and a table of reports as anyone's.
"""

import json
import os
import shutil
from pathlib import Path
from random import Random

import pandas as pd

from cxr_files.atomic import write_json
from cxr_hospital.draw import writer
from cxr_hospital.settings import FollowedSettings, HospitalSettings
from cxr_labels.command import main as label
from cxr_labels.settings import ReportSettings
from cxrflow.data import layouts
from cxrflow.data.cohorts import build_cohort
from cxrflow.data.readers import mimic_iv
from cxrflow.data.readers.common_tables import Request
from cxrflow.reports.corpus import build_corpus
from cxrflow.show.tables.make_table import main as make_table
from cxrflow.text import corpus, vocabulary
from cxrflow.text.settings import CorpusSettings
from fuzz.texts import changed
from fuzz.trial import Trial

COUNT = 1000
HOSPITAL = HospitalSettings(
    **{"patients": 12, "image_size": 64, "rsna_images": 8, "abstracts": 20, "notes": 10},
    **{"radnli_pairs": 20, "mednli_pairs": 12, "generic_pictures": 16, "splitter_reports": 6},
    **{"captioned_pictures": 8, "nih_patients": 6, "padchest_patients": 8},
    ms_cxr_patient_share=0.5,
    followed=FollowedSettings(patients=10, sentence_pairs=12),
)
READ = tuple(name for name in layouts.LAYOUTS if layouts.layout(name).synthetic)
OWN = ("labels", "documents", "corpus", "metrics")
PICTURES = (".dcm", ".png", ".jpg", ".jpeg")
OFFICIAL = ("chexpert", "mura", "covidx", "imagenet", "nih")


def run(trial: Trial, work: Path) -> None:
    """Each case is a copy of a folder in which one file is changed."""
    sound = work / "sound"
    write_sound(sound)
    cases = [draw(trial.random(n), sound, work / f"cases/{n:05d}") for n in range(trial.count)]
    trial.attempt(read, cases)


def write_sound(sound: Path) -> None:
    """A folder a layout, and those of :data:`OWN`."""
    for name in READ:
        more = {"images": True} if name == "mimic_cxr_jpg" else {}
        writer(name)(HOSPITAL, sound / name, 1, **more)
    for path in sound.rglob("*.md5"):  # which would tell of any change
        path.unlink()
    plain = ReportSettings.model_validate({"splitter": "rules"})
    build_corpus("mimic_cxr", str(sound / "mimic_cxr"), sound / "corpus", plain)
    texts = pd.read_parquet(sound / "corpus/documents.parquet")["text"]
    table = pd.DataFrame({"id": range(len(texts)), "report": texts})
    (sound / "labels").mkdir()
    table.to_csv(sound / "labels/reports.csv", index=False)
    table.to_csv(sound / "labels/reports.tsv", index=False, sep="\t")
    table.to_parquet(sound / "labels/reports.parquet")
    (sound / "documents").mkdir()
    shutil.copy(sound / "corpus/documents.parquet", sound / "documents")
    values = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 10}
    result = {
        "task": "biovil/phrase_grounding",
        "model": "biovil/biovil",
        "seed": 0,
        "learnt": True,
    }
    result |= {"data": {"name": "ms_cxr", "synthetic": True}, "protocol": {}, "benchmark": "x"}
    (sound / "metrics").mkdir()
    write_json(sound / "metrics/metrics.json", {**result, "metrics": {"cnr/mean": values}})


def draw(random: Random, sound: Path, case: Path) -> Path:
    """Copy a folder, change a file of it that is no picture; gives that file."""
    name = random.choice((*READ, *OWN, *OWN))
    folder = case / name
    shutil.copytree(sound / name, folder, copy_function=os.link)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [path for path in files if path.suffix not in PICTURES and path.name != ".cxrflow"]
    # A report is one of dozens; the lists are few and matter more.
    few = [path for path in files if len(list(path.parent.glob(f"*{path.suffix}"))) < 4]
    path = random.choice(few if few and random.random() < 0.8 else files)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(changed(random, path.name, content))
    return path


def read(path: Path) -> None:
    """Give a changed folder to the programs that read it; InputError where they refuse it."""
    place = path.parts.index("cases") + 2
    case, name = Path(*path.parts[:place]), path.parts[place]
    sound, root, output = case.parents[1] / "sound", case / name, case / "output"
    if name == "labels":
        label(["--input", str(path), "--output", str(output / "labels.csv")])
    elif name == "documents":
        vocabulary.main(["--documents", str(path), "--output", str(output)])
    elif name == "corpus":
        pairs = cohort_arguments("mimic_cxr_jpg", "pairs", sound, output)
        build_cohort.main([*pairs, "--corpus", str(root)])
    elif name == "metrics":
        tables = ["--paper", "biovil", "--table", "table6", "--metrics", str(path)]
        make_table([*tables, "--output", str(output / "table")])
    else:
        _read_layout(name, root, output)


def _read_layout(name: str, root: Path, output: Path) -> None:
    known = layouts.layout(name)
    if known.documents:
        settings = CorpusSettings(max_failed_share=1)
        corpus.build_corpus(name, root, settings, output / "documents")
    if known.reports:
        plain = ReportSettings.model_validate({"splitter": "rules", "max_failed_share": 1})
        build_corpus(name, str(root), output / "corpus", plain)
    if name == "mimic_iv":
        mimic_iv.read_patients(root)
    elif not known.reports and "pairs" in known.cohorts:
        known.read(root, Request())
    for kind in known.cohorts:
        if kind != "pairs" or known.reports:
            more = ["--corpus", str(output / "corpus")] if kind == "pairs" else []
            build_cohort.main([*cohort_arguments(name, kind, root.parent, output / kind), *more])


def cohort_arguments(name: str, kind: str, folder: Path, output: Path) -> list[str]:
    """What ``cxrflow build_cohort`` is given; images of others lie in the sound folders."""
    settings: dict[str, object] = {"kind": kind, "max_failed_share": 1}
    if kind == "pairs":
        settings["views"] = None
    if kind == "classification":
        settings["splits"] = {"method": "official" if name in OFFICIAL else "ordered"}
    given = ["--layout", name, "--root", str(folder / name), "--settings", json.dumps(settings)]
    sound = folder if folder.name == "sound" else folder.parents[1] / "sound"
    if kind in ("grounding", "progression", "retrieval"):
        holder = "chexpert" if kind == "retrieval" else "mimic_cxr_jpg"
        given += ["--images-layout", holder, "--images-root", str(sound / holder)]
    return [*given, "--output", str(output)]
