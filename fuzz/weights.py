"""Weight files: a model folder of ours and its two exports, damaged, renamed, split or replaced.

A folder with checksums is refused whatever changes in it. Where another folder is loaded, all its
numbers are finite, and an image and a text have embeddings.
"""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file

import cxrflow
from cxr_files.atomic import CHECKSUMS, atomic_folder, write_json
from cxrflow.commands.export import export
from cxrflow.commands.load import facts
from cxrflow.encoders.cxr_bert import CXRBert, save_text_encoder
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings, TextEncoderSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer
from fuzz.mutations import damaged
from fuzz.texts import changed
from fuzz.trial import Trial

COUNT = 600
WORDS = ("no", "pleural", "effusion", "##s", "left", "edema", ".")
IMAGE = ResNetSettings(block="basic", layers=[1, 1, 1, 1], width=8, channels=1, projection=8)
TEXT = TextEncoderSettings(layers=2, width=16, heads=2, feed_forward=24, positions=16, projection=8)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 440343552\n" % (
    b"0" * 64
)
PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>403</body></html>"
OTHERS = (b"", POINTER, PAGE, b"\0" * 4096, b"PK\3\4", b"\x80\x04.", b"{}" * 5000)
NUMBERS = (float("nan"), float("inf"), -float("inf"))
CONFIGURED = (None, 0, -1, 1, 3, 1e-3, "x", [], True)


class Case(NamedTuple):
    """A folder; ``harm``: why it must not be loaded, or "" if it may be."""

    folder: Path
    harm: str


class Command:
    """What a pickle may ask to be called."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def run(trial: Trial, work: Path) -> None:
    """Each case is a copy of a folder with one change."""
    sound = work / "sound"
    write_sound(sound)
    for folder in sorted(sound.iterdir()):
        load(Case(folder, ""))
    cases = [draw(trial.random(n), sound, work / f"cases/{n:05d}") for n in range(trial.count)]
    trial.attempt(load, cases)


def write_sound(sound: Path) -> None:
    """A model folder of ours and what it exports."""
    torch.manual_seed(0)
    pieces = [*SPECIAL_TOKENS, *WORDS]
    with atomic_folder(sound / "own", "model") as folder:
        write_tokenizer(folder, pieces, lowercase=True)
        save_text_encoder(CXRBert.build(TEXT, len(pieces), 0), folder)
        save_image_encoder(ImageEncoder(IMAGE), folder)
        write_json(folder / "run.json", {"data": {"geometry": "shorter32"}})
    for kind in ("bin", "safetensors"):
        export(sound / "own", sound / kind, kind)
        (sound / kind / CHECKSUMS).unlink()  # published folders have none


def draw(random: Random, sound: Path, folder: Path) -> Case:
    """Copy a folder and change a file of it."""
    source = random.choice(sorted(sound.iterdir()))
    shutil.copytree(source, folder)
    if source.name == "own":
        return Case(folder, _changed_file(random, folder))
    change = random.choice(
        (_other_file, _changed_file, _configured, _pickled, _split, *[_tensor] * 6)
    )
    harm = change(random, folder)
    return Case(folder, "" if change is _changed_file else harm)


def load(case: Case) -> None:
    """Load a folder as ``cxrflow load`` does."""
    model = cxrflow.load(case.folder)
    if case.harm:
        raise AssertionError(f"loaded, though {case.harm}")
    for half in (model.text_encoder, model.image_encoder):
        for name, parameter in () if half is None else half.named_parameters():
            if not parameter.isfinite().all():
                raise AssertionError(f"loaded, though {name} is not finite")
    list(facts(model))


def _files(folder: Path) -> list[Path]:
    known = (CHECKSUMS, ".cxrflow", "README.md")
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in known]


def _changed_file(random: Random, folder: Path) -> str:
    """Bytes, values or lines of any file."""
    path = random.choice(_files(folder))
    content = path.read_bytes()
    kind = changed if path.suffix in (".json", ".txt") else None
    path.write_bytes(kind(random, path.name, content) if kind else damaged(random, content))
    same = path.read_bytes() == content
    return "" if same else f"{path.name} has changed"


def _other_file(random: Random, folder: Path) -> str:
    """A pointer, a page or nothing in the place of weights."""
    path = random.choice([p for p in _files(folder) if p.suffix in (".bin", ".pt", ".safetensors")])
    path.write_bytes(random.choice(OTHERS))
    return f"{path.name} holds no weights"


def _configured(random: Random, folder: Path) -> str:
    """A key of a configuration with another value, or without one."""
    path = random.choice([p for p in _files(folder) if p.suffix == ".json"])
    values = json.loads(path.read_text())
    if isinstance(values, dict) and values:
        key = random.choice(sorted(values))
        values[key] = random.choice(CONFIGURED)
        if random.random() < 0.2:
            del values[key]
    path.write_text(json.dumps(values))
    return ""


def _pickled(random: Random, folder: Path) -> str:
    """A pickle that would call something, plain or as torch's own archive."""
    path = random.choice([p for p in _files(folder) if p.suffix in (".bin", ".pt", ".safetensors")])
    content: dict[str, Any] = {"a": Command(folder / "called"), "b": torch.zeros(2)}
    if random.random() < 0.5:
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path)
    return f"{path.name} holds a call"


def _split(random: Random, folder: Path) -> str:
    """Two shards with their index, whole or without one of them."""
    path = next((p for p in _files(folder) if p.name == "model.safetensors"), None)
    if path is None:
        return ""
    weights = load_file(path)
    names = sorted(weights)
    path.unlink()
    places = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for shard in set(places.values()):
        chosen = {name: weights[name] for name in names if places[name] == shard}
        save_file(chosen, folder / shard, {"format": "pt"})
    missing = random.random() < 0.5
    if missing:
        (folder / random.choice(sorted(set(places.values())))).unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return "a shard is missing" if missing else ""


def _tensor(random: Random, folder: Path) -> str:
    """A tensor that is not finite, of another shape or name, missing, twice or one too many."""
    path = random.choice([p for p in _files(folder) if p.suffix in (".bin", ".pt", ".safetensors")])
    is_safe = path.suffix == ".safetensors"
    weights = load_file(path) if is_safe else torch.load(path, weights_only=True)
    floats = [name for name, value in weights.items() if value.is_floating_point()]
    name = random.choice([n for n in floats if ".fc." not in n])  # which nothing reads
    value, change, harm = weights[name], random.randrange(7), f"{name} of {path.name} has changed"
    if change == 0:
        value.view(-1)[random.randrange(value.numel())] = random.choice(NUMBERS)
    elif change == 1:
        weights[name] = value[..., None].contiguous()
    elif change == 2:
        del weights[name]
    elif change == 3:
        weights[f"{name}.more"] = value.clone()
    elif change == 4:
        weights[name] = value.to(random.choice((torch.int64, torch.bool, torch.complex64)))
    elif change == 5:
        weights[name], harm = value.to(random.choice((torch.float16, torch.bfloat16))), ""
    else:
        weights, harm = {f"module.{n}": v for n, v in weights.items()}, ""
    save_file(weights, path, {"format": "pt"}) if is_safe else torch.save(weights, path)
    return harm
