"""All that paper.yaml names, from the synthetic hospital, to rehearse the paper run without data.

    python tests/paper_inputs.py FOLDER --patients 700
    CXR_DATA=FOLDER cxrflow rehearse --configfile paper.yaml FOLDER/synthetic.yaml --cores 2 \
        --config rehearsal='{batch: 2, image: 64}'

In the place of each data set lies a copy in its layout, in the place of published weights random
numbers of the same names and shapes. ``synthetic.yaml`` has stanza's models trained on synthetic
text, which nobody publishes in this form. ``--over public.yaml`` copies what that file names, too.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import yaml

from cxr_hospital.draw import WRITERS
from released_files import (
    BASE,
    CLIP_50,
    bert_shapes,
    clip_shapes,
    deit_shapes,
    drawn,
    resnet_shapes,
    token_head_shapes,
    write_text_folder,
)

PAPER = Path(__file__).parents[1] / "paper.yaml"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;/()-'%"
#: Pieces of the published vocabularies of BERT, ClinicalBERT (cased) and PubMedBERT.
PIECES = {"bert_base": 30522, "clinical_bert": 28996, "pubmed_bert": 30522}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
HOSPITAL = {
    **{"image_size": 128, "rsna_images": 300, "nih_patients": 300, "padchest_patients": 300},
    **{"notes": 200, "abstracts": 200, "radnli_pairs": 480, "mednli_pairs": 1200},
    **{"ms_cxr_patient_share": 0.2, "followed": {"patients": 120}},
}
SYNTHETIC = {
    "synthetic_hospital": {"splitter_reports": 200},
    "reports": {
        "typo_list": None,
        "stanza_folder": None,
        "entities": {"stanza_folder": None, "training": {"steps": 60}},
    },
    # The published numbers would leave nothing of the copies to train on.
    "cohorts": {
        name: {"splits": {"validation": {"count": 80}}}
        for name in ("convirt/chexpert", "convirt/covidx")
    },
}


def roots(overlay: Path | None) -> dict[str, str]:
    """Where paper.yaml, and the file over it, look for data sets, by layout."""
    datasets = {}
    for path in filter(None, (PAPER, overlay)):
        datasets |= yaml.safe_load(path.read_text(encoding="utf-8"))["datasets"]
    return {entry.get("layout", name): entry["root"] for name, entry in datasets.items() if entry}


def write_roots(folder: Path, patients: int, overlay: Path | None) -> None:
    """A copy of each data set that is named, where it is looked for."""
    datasets = roots(overlay)
    drawing = folder / "drawn"  # side by side: the JPGs are of the DICOM files beside them

    def draw(layout: str) -> None:
        command = [sys.executable, "-m", "cxr_hospital.draw", "--layout", layout, "--threads", "1"]
        jpg = ["--jpg"] if layout == "mimic_cxr_jpg" else []
        size = ["--patients", str(patients), "--settings", json.dumps(HOSPITAL)]
        subprocess.run([*command, *size, *jpg, str(drawing / layout)], check=True)
        root = Path(datasets[layout].replace("${CXR_DATA}", str(folder)))
        root.parent.mkdir(parents=True, exist_ok=True)
        if not root.exists():
            root.symlink_to(os.path.relpath(drawing / layout, root.parent))

    # What has no synthetic copy is optional.
    layouts = [name for name in datasets if name in WRITERS and name != "mimic_cxr_jpg"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(draw, layouts))
    if "mimic_cxr_jpg" in datasets:
        draw("mimic_cxr_jpg")


def pieces(count: int) -> tuple[str, ...]:
    """A word-piece vocabulary of this size that spells every word."""
    letters = [
        f"{mark}{letter}" for mark in ("", "##") for letter in LETTERS + LETTERS[:26].upper()
    ]
    letters = list(dict.fromkeys(letters))
    unused = (f"[unused{number}]" for number in range(count))
    return (*SPECIAL, *letters, *(next(unused) for _ in range(count - 5 - len(letters))))


def write_weights(folder: Path) -> None:
    """Random weights of the published names and shapes, where paper.yaml looks for them."""
    weights = yaml.safe_load(PAPER.read_text(encoding="utf-8"))["weights"]
    for name, entry in weights.items():
        path = Path(entry["path"].replace("${CXR_DATA}", str(folder)))
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = name.rsplit("/", 1)[1]
        if kind == "imagenet_pretraining":
            torch.save(drawn(resnet_shapes(64, (3, 4, 6, 3))), path)
        elif kind == "vit_pretraining":
            torch.save({"model": drawn(deit_shapes(768, 12, 16, 197))}, path)
        elif kind == "clip_released":
            write_clip_50(path)
        else:
            sizes = BASE | {"vocab_size": PIECES[kind]}
            shapes = bert_shapes(sizes) | token_head_shapes(sizes)
            config = {**sizes, "model_type": "bert", "hidden_act": "gelu", "pad_token_id": 0}
            write_text_folder(path, drawn(shapes), config, pieces(sizes["vocab_size"]))


def write_clip_50(folder: Path) -> None:
    """CLIP with a ResNet-50 of random weights; its byte pairs are of letters alone."""
    folder.mkdir(parents=True)
    letters = LETTERS[:26]
    merges = [f"{a} {b}" for a in letters for b in letters]
    lines = ["#version: 0.2", *merges]
    torch.save(drawn(clip_shapes(CLIP_50, 2 * 256 + len(merges) + 2)), folder / "clip_resnet50.pt")
    (folder / "bpe_simple_vocab_16e6.txt.gz").write_bytes(
        gzip.compress("".join(f"{line}\n" for line in lines).encode())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--patients", type=int, default=700, help="of the MIMIC-CXR copy")
    parser.add_argument("--over", type=Path, help="a configuration over paper.yaml")
    typed = parser.parse_args()
    typed.folder.mkdir(parents=True, exist_ok=True)
    write_weights(typed.folder)
    write_roots(typed.folder, typed.patients, typed.over)
    text = yaml.safe_dump(SYNTHETIC, sort_keys=False)
    (typed.folder / "synthetic.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
