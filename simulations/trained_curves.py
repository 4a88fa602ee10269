"""How often forecasts of twice the pairs hold what trainings on twice the pairs then give.

    python -m simulations.trained_curves --output trained_curves

A set of trainings is of one recipe on pairs of one synthetic hospital: 10, 20, 50 and 100 % of N
pairs with three seeds, as `learning_curve.yaml` has them, and five more seeds on twice the pairs,
which hold the N. Of a share below 100 % each seed reads its own pairs, by the rule of
`training_subset: each`. Each set gives a curve of each metric, and `beyond` of the page says what
it says of it. Which recipe a set has follows from its number alone (`recipe`).

An interval is of the mean of three trainings on twice the pairs. So it holds what comes where it
holds the mean of the first three: their own spread is part of what it promises. The mean of all
five is nearer to the truth, and is counted beside it. A miss is *clear* where the interval lies
beyond the 95 % interval of the mean of five (Student's t), too.

Sets that are in the file are not trained again. `--first 72` goes on with other recipes on other
hospitals.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import normalize

from cxr_hospital.drawing import draw
from cxr_hospital.patient import make_patient
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxrflow.benchmarks.classification.settings import ZeroShotFindingsSettings
from cxrflow.losses import global_alignment
from cxrflow.metrics import auroc, cosines, ranks
from cxrflow.metrics.crossed import over_trainings
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.permuted_pairs import RankSums
from cxrflow.metrics.pooled_auroc import search
from cxrflow.metrics.twins import TWINS, twin_p
from cxrflow.pretrain.inputs import GOLDEN
from cxrflow.show.figures.curve import beyond
from cxrflow.show.tables.cells import Cell
from cxrflow.text.words import words_of

SHARES, SEEDS, LATER_SEEDS = (10, 20, 50, 100), range(3), range(3, 8)
VALIDATION, TEST = 256, 512  # patients, of whom each has one pair
DRAWN, SIDE, JOINT, RARE = 64, 32, 64, 5  # pixels, the joint space's width; reports of a word
BATCH, VALIDATIONS, OF_HOSPITAL = 32, 5, 18  # sets of a hospital
PROMPTS = ZeroShotFindingsSettings()
IMAGES = (*("pixels", "frozen", "layers") * 2, "CNN")
TEXTS, PAIRS = ("words", "mean"), (512, 1024, 1536)
METRICS = ("retrieval AUROC", "zero-shot AUROC", "R@10")


Record = dict[str, Any]  # a line of the file


class Recipe(NamedTuple):
    """``pairs``: N; ``temperature``: None is learnt, from 0.07; ``steps``: None by ``epochs``."""

    hospital: int
    image: str
    text: str
    pairs: int
    temperature: float | None
    image_to_text: float
    rate: float
    steps: int | None
    epochs: int | None


def recipe(number: int) -> Recipe:
    """Encoders and pairs in turn, all else by chance."""
    rng = np.random.default_rng([58, number])
    steps, epochs = ((150, None), (300, None), (None, 4), (None, 8))[rng.integers(4)]
    temperature = (None, 0.07, 0.2, 0.5)[rng.integers(4)]
    share, rate = (0.5, 0.75)[rng.integers(2)], (1e-3, 2e-3, 5e-3)[rng.integers(3)]
    hospital = 5800 + number // OF_HOSPITAL
    encoders = IMAGES[number % len(IMAGES)], TEXTS[number % len(TEXTS)]
    pairs = PAIRS[rng.integers(len(PAIRS))]
    return Recipe(hospital, *encoders, pairs, temperature, share, rate, steps, epochs)


class Hospital(NamedTuple):
    """Pairs of N patients; ``prompt_C2V``: of each finding's absence and presence.

    Images are pixels, or whitened: main components of their pixels, and of frozen random features.
    """

    images: dict[str, Tensor]
    word_NV: Tensor  # 1 for each word that the report holds
    label_NC: Tensor  # 1 where the report says that a finding is there
    prompt_C2V: Tensor


def draw_hospital(seed: int, patients: int) -> Hospital:
    """The first frontal image of each patient's first study, with its report."""
    settings, names = HospitalSettings(seed=seed), list(PROMPTS.classes or ())
    images, texts, labels = [], [], []
    for number in count():
        patient = make_patient(settings, number)
        study = patient.studies[0]
        frontal = next((image for image in study.images if image.frontal), None)
        report = report_of(settings, patient, study)
        sentences = report.impression or report.findings or report.last_paragraph
        if frontal is None or not sentences:
            continue
        picture = Image.fromarray(draw(patient, study, frontal, DRAWN).image)
        images.append(np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX)))
        texts.append(words_of(" ".join(sentences)))
        labels.append([report.labels.get(name) == 1 for name in names])
        if len(images) == patients:
            break
    often = Counter(word for text in texts for word in {*text})
    known = sorted(word for word, times in often.items() if times >= RARE)
    sides = (PROMPTS.negative_prompts[0], PROMPTS.positive_prompts[0])
    prompts = [[words_of(side.format(name.lower())) for side in sides] for name in names]

    def held(words: Sequence[str]) -> list[bool]:
        return [word in words for word in known]

    pixel_N = torch.tensor(np.stack(images))[:, None]
    pixel_N = (pixel_N - pixel_N.mean()) / pixel_N.std()
    torch.manual_seed(seed)
    random = nn.Sequential(nn.Conv2d(1, 64, 7, 1, 3), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten())
    with torch.no_grad():
        feature_N = torch.cat([random(part) for part in pixel_N.split(256)])
    some = torch.randperm(feature_N.shape[1])[:1024]
    return Hospital(
        {
            "CNN": pixel_N,
            "pixels": whitened(pixel_N.flatten(1), 64),
            "frozen": whitened(feature_N[:, some], 128),
        },
        torch.tensor([held(text) for text in texts]).float(),
        torch.tensor(labels).long(),
        torch.tensor([[held(prompt) for prompt in both] for both in prompts]).float(),
    )


def whitened(feature_NF: Tensor, components: int) -> Tensor:
    """The main components, each with variance 1."""
    feature_NF = feature_NF - feature_NF.mean(0)
    variance_F, vector_FF = torch.linalg.eigh(feature_NF.T @ feature_NF / len(feature_NF))
    return feature_NF @ vector_FF[:, -components:] / variance_F[-components:].sqrt()


class Mean(nn.Module):
    """The mean of the words' vectors."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vector_VP = nn.Parameter(torch.randn(vocabulary, JOINT))

    def forward(self, word_NV: Tensor) -> Tensor:
        return word_NV @ self.vector_VP / word_NV.sum(-1, keepdim=True).clamp(min=1)


class Model(nn.Module):
    """Both encoders, and the logarithm of the temperature."""

    def __init__(self, of: Recipe, inputs: int, vocabulary: int) -> None:
        super().__init__()
        self.image: nn.Module
        self.text: nn.Module
        if of.image == "CNN":
            self.image = nn.Sequential(
                *(nn.Conv2d(1, 16, 7, 4, 3), nn.GroupNorm(4, 16), nn.ReLU()),
                *(nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.ReLU(), nn.Flatten()),
                nn.Linear(512, JOINT),
            )
        elif of.image == "layers":
            self.image = nn.Sequential(*_two_layers(inputs))
        else:
            self.image = nn.Linear(inputs, JOINT)
        if of.text == "mean":
            self.text = nn.Sequential(Mean(vocabulary), *_two_layers(JOINT))
        else:
            self.text = nn.Linear(vocabulary, JOINT)
        self.log_temperature = nn.Parameter(torch.tensor(of.temperature or 0.07).log())

    def forward(self, image_N: Tensor, word_NV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.image(image_N), self.text(word_NV), self.log_temperature.exp()


def _two_layers(inputs: int) -> tuple[nn.Module, ...]:
    return nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, JOINT)


Weights = dict[str, Tensor]  # of M models, stacked


class Study:
    """Trainings of one recipe on one hospital, all validated and tested on the same pairs.

    M models are trained at once, each on its own batches: that is faster, and else the same.
    """

    def __init__(self, of: Recipe, hospital: Hospital, number: int) -> None:
        self.of, self.hospital = of, hospital
        rng = np.random.default_rng([585, number])
        order = torch.tensor(rng.permutation(len(hospital.word_NV)))
        self.test, self.validation = order[:TEST], order[TEST:][:VALIDATION]
        self.train = order[TEST + VALIDATION :][: 2 * of.pairs]
        # Shares are taken by it; none has less than a batch.
        self.place_N = torch.tensor((rng.permutation(of.pairs) + 0.5) / of.pairs)
        self.input_N = hospital.images.get(of.image, hospital.images["pixels"])
        words = hospital.word_NV[self.test].numpy()
        self.texts_N = np.unique(words, axis=0, return_inverse=True)[1].ravel()
        self.model = self._drawn(0)

    def _drawn(self, seed: int) -> Model:
        torch.manual_seed(seed)
        return Model(self.of, self.input_N.shape[1], self.hospital.word_NV.shape[1])

    def starts(self, seeds: Sequence[int]) -> Weights:
        """The weights of untrained models."""
        models = [self._drawn(seed).state_dict() for seed in seeds]
        return {name: torch.stack([model[name] for model in models]) for name in models[0]}

    def rows(self, share: int, seed: int) -> Tensor:
        """Pairs of a training; 200 is twice the pairs."""
        if share > 100:
            return self.train
        turned_N = (self.place_N + seed * GOLDEN) % 1
        return self.train[: self.of.pairs][turned_N < share / 100 if share < 100 else slice(None)]

    def steps(self, share: int) -> int:
        """Updates of a training on a share of the pairs."""
        batches = self.of.pairs * share / 100 / BATCH
        return self.of.steps or max(VALIDATIONS, round((self.of.epochs or 0) * batches))

    def fit(self, trainings: Sequence[tuple[int, int]], steps: int) -> Weights:
        """Train a model of each share and seed; the weights of least validation loss are kept."""
        weights = self.starts([seed for _, seed in trainings])
        for name, weight in weights.items():
            weight.requires_grad_(name != "log_temperature" or self.of.temperature is None)
        batches = [self._batches(self.rows(*each), steps, each) for each in trainings]
        learning = [weight for weight in weights.values() if weight.requires_grad]
        optimiser = torch.optim.AdamW(learning, self.of.rate, fused=True)
        validated = {steps * (n + 1) // VALIDATIONS for n in range(VALIDATIONS)}
        validation = self.validation[: VALIDATION // BATCH * BATCH].split(BATCH)
        kept, least_M = {}, torch.full([len(trainings)], torch.inf)
        for step, rows_M in enumerate(zip(*batches, strict=True), 1):
            optimiser.zero_grad()
            self._losses(weights, torch.stack(rows_M)).sum().backward()
            optimiser.step()
            if step in validated:
                with torch.no_grad():
                    losses = [self._losses(weights, rows[None]) for rows in validation]
                    loss_M = torch.stack(losses).mean(0)
                    better_M, least_M = loss_M < least_M, torch.minimum(loss_M, least_M)
                    for name, weight in weights.items():
                        better = better_M.view(-1, *[1] * (weight.dim() - 1))
                        kept[name] = torch.where(better, weight, kept.get(name, weight))
        return kept

    @staticmethod
    def _batches(rows: Tensor, steps: int, key: tuple[int, int]) -> Iterator[Tensor]:
        """Rows of each step: whole batches of one order of the rows after another."""
        random = torch.Generator().manual_seed(1000 * key[0] + key[1])
        while True:
            for batch in rows[torch.randperm(len(rows), generator=random)].split(BATCH):
                if len(batch) == BATCH:
                    if steps == 0:
                        return
                    steps -= 1
                    yield batch

    def _losses(self, weights: Weights, rows_MN: Tensor) -> Tensor:
        """The global term of BioViL, at other shares of ConVIRT, of each model."""
        share, words = self.of.image_to_text, self.hospital.word_NV

        def of_one(weight: Weights, image_N: Tensor, word_NV: Tensor) -> Tensor:
            image_NP, text_NP, temperature = functional_call(self.model, weight, (image_N, word_NV))
            return global_alignment(image_NP, text_NP, temperature, image_to_text=share)

        rows = rows_MN if len(rows_MN) > 1 else rows_MN[0]
        dims = (0, *[0 if len(rows_MN) > 1 else None] * 2)
        return cast(Tensor, vmap(of_one, dims)(weights, self.input_N[rows], words[rows]))

    def _encoded(self, weights: Weights, rows: Tensor, more_XV: Tensor) -> list[Tensor]:
        """Joint vectors [M, N, P] of these images, and of their texts and more."""
        word_NV = torch.cat([self.hospital.word_NV[rows], more_XV])

        def of_one(weight: Weights) -> tuple[Tensor, Tensor]:
            joint: tuple[Tensor, ...] = functional_call(
                self.model, weight, (self.input_N[rows], word_NV)
            )
            return joint[0], joint[1]

        return [normalize(each, dim=2).double() for each in vmap(of_one)(weights)]

    @torch.no_grad()
    def ranks(self, weights: Weights) -> list[float]:
        """Of each model the mean percentile rank of the true pair in batches of the validation."""
        joint, of_models = self._encoded(weights, self.validation, self.hospital.word_NV[:0]), []
        for sides in zip(*joint, strict=True):
            sums, parts = RankSums(), [side.split(BATCH) for side in sides]
            for image_NP, text_NP in zip(*parts, strict=True):
                sums += RankSums.of((image_NP @ text_NP.T).numpy())
            of_models.append(sums.mean or 0.0)
        return of_models

    @torch.no_grad()
    def scores(self, weights: Weights) -> list[dict[str, float]]:
        """Scores of each model on the test part, by metric."""
        prompt_XV = self.hospital.prompt_C2V.flatten(0, 1)
        joint = [each.numpy() for each in self._encoded(weights, self.test, prompt_XV)]
        label_NC, texts_N = self.hospital.label_NC[self.test].numpy(), self.texts_N
        rivals_NN, of_models = texts_N[:, None] != texts_N, []
        for image_NP, text_XP in zip(*joint, strict=True):
            score_NX = cosines(image_NP, text_XP)
            score_NN, sides_NC2 = score_NX[:, :TEST], score_NX[:, TEST:].reshape(TEST, -1, 2)
            own_1N = np.diag(score_NN)[None].copy()
            pooled = search(partial(_rows, score_NN), own_1N, texts_N).below_XN.mean()
            found = (ranks(score_NN.T, np.arange(TEST), rivals_NN) <= 10).mean()
            present_NC = sides_NC2[..., 1] - sides_NC2[..., 0]  # in the order of their softmax
            areas = [auroc(*both) for both in zip(label_NC.T, present_NC.T, strict=True)]
            values = map(float, (pooled, np.mean(areas), found))
            of_models.append(dict(zip(METRICS, values, strict=True)))
        return of_models


def _rows(score_NN: Floats, rows: slice) -> Floats:
    return score_NN[rows].copy()  # the search marks own pairs in it


def trained_set(of: Recipe, hospital: Hospital, number: int) -> Record:
    """All trainings of a set: scores by metric and share, and how many have not learnt."""
    begun, study = time.process_time(), Study(of, hospital, number)
    trainings = [(share, seed) for share in SHARES for seed in SEEDS]
    trainings += [(200, seed) for seed in LATER_SEEDS]
    scores: dict[tuple[int, int], dict[str, float]] = {}
    trained: list[float] = []
    for steps in sorted({study.steps(share) for share, _ in trainings}):
        together = [each for each in trainings if study.steps(each[0]) == steps]
        weights = study.fit(together, steps)
        scores |= zip(together, study.scores(weights), strict=True)
        ranked = zip(together, study.ranks(weights), strict=True)
        trained += [rank for (share, _), rank in ranked if share == SHARES[-1]]
    twins = study.ranks(study.starts(range(1000, 1000 + TWINS)))
    learnt = [twin_p([rank], [twins]) <= 1 / (TWINS + 1) for rank in trained]
    return {
        "number": number,
        "recipe": of._asdict(),
        "scores": {
            metric: [[scores[share, seed][metric] for seed in SEEDS] for share in SHARES]
            for metric in METRICS
        },
        "later": {
            metric: [scores[200, seed][metric] for seed in LATER_SEEDS] for metric in METRICS
        },
        "unlearnt": learnt.count(False),
        "seconds": round(time.process_time() - begun, 1),
    }


class Judged(NamedTuple):
    """A curve. Without a ``doubt`` it says something; ``holds`` the mean of three, then of all."""

    kinds: dict[str, str]
    doubt: str | None
    holds: tuple[bool, bool] = (False, False)
    clear: bool = False  # a miss beyond the error of the mean of all
    width: float = 0.0


def judge(record: Record, metric: str) -> Judged:
    """What the page says of a curve, beside what came."""
    recipe, number = record["recipe"], str(record["number"])
    kinds = {"set": number, "metric": metric}
    kinds |= {name: str(recipe[name]) for name in ("hospital", "image", "text", "pairs")}
    kinds["length"] = "epochs" if recipe["steps"] is None else "steps"
    cells = [
        Cell("", "", by_seed=dict(zip(SEEDS, scores, strict=True)), unlearnt=unlearnt)
        for scores, unlearnt in zip(
            record["scores"][metric], (0, 0, 0, record["unlearnt"]), strict=True
        )
    ]
    more = beyond(SHARES, cells, 1.0, [share < 100 for share in SHARES])
    if more["doubt"] is not None:
        reasons = ("not learnt", "wider than the rise", "lie on no curve")
        reason = next((known for known in reasons if known in more["doubt"]), more["doubt"])
        return Judged(kinds, reason)
    kinds["families"] = ", ".join(more["families"])
    low, high = (more["points"][-1][end] for end in ("low", "high"))
    later = record["later"][metric]
    means = np.mean(later[: len(SEEDS)]), np.mean(later)
    three, every = (bool(low <= mean <= high) for mean in means)
    truth_low, truth_high, _ = over_trainings(later, 0.95)
    return Judged(
        kinds, None, (three, every), bool(truth_high < low or truth_low > high), high - low
    )


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of n, at 95 % (1927, J Am Stat Assoc 22:209)."""
    z2 = 1.96**2
    centre, half = share + z2 / (2 * n), (z2 * share * (1 - share) / n + z2**2 / (4 * n**2)) ** 0.5
    return (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)


def row(name: str, curves: Sequence[Judged]) -> str:
    """A line of the table; its interval counts the curves of a set, of equal pairs, as one."""
    says = [curve for curve in curves if curve.doubt is None]
    cells = [name, str(len(curves)), str(len(says))]
    if says:
        three, every = np.mean([curve.holds for curve in says], axis=0)
        low, high = wilson(float(three), len({curve.kinds["set"] for curve in says}))
        width = np.median([curve.width for curve in says])
        cells += [f"{three:.3f} ({low:.2f} to {high:.2f})", f"{every:.3f}"]
        cells += [str(sum(curve.clear for curve in says)), f"{width:.3f}"]
    else:
        cells += ["-"] * 4
    return f"| {' | '.join(cells)} |"


def report(records: Sequence[Record]) -> list[str]:
    """The tables of coverage, all in one and by kind, and of why curves say nothing."""
    curves = [judge(record, metric) for record in records for metric in METRICS]
    head = ("curves of", "number", "say it", "hold the mean of three", "of five", "clear misses")
    lines = [f"| {' | '.join((*head, 'width'))} |", "| --- " * 7 + "|", row("all", curves)]
    for kind in ("metric", "image", "text", "pairs", "length", "hospital", "families"):
        of_kind: dict[str, list[Judged]] = {}
        for curve in curves:
            if kind in curve.kinds:
                of_kind.setdefault(curve.kinds[kind], []).append(curve)
        lines += [row(f"{kind} {name}", of_kind[name]) for name in sorted(of_kind)]
    doubts = Counter(curve.doubt for curve in curves if curve.doubt is not None)
    lines += [f"{times} curves say nothing: {reason}" for reason, times in doubts.most_common()]
    seconds = sum(record["seconds"] for record in records)
    return [*lines, f"{len(records)} sets of trainings in {seconds / 60:.0f} minutes of a core"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m simulations.trained_curves", description=__doc__
    )
    parser.add_argument("--sets", type=int, default=72, help="of trainings (default: 72)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    parser.add_argument("--output", type=Path, required=True, help="folder of scores and hospitals")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "sets.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    records = {record["number"]: record for record in map(json.loads, lines)}
    numbers = range(options.first, options.first + options.sets)
    for number in numbers:
        if number not in records:
            of = recipe(number)
            hospital = kept_hospital(options.output, of.hospital)
            records[number] = trained_set(of, hospital, number)
            with file.open("a", encoding="utf-8") as lines_of_sets:
                lines_of_sets.write(json.dumps(records[number]) + "\n")
    print("\n".join(report([records[number] for number in numbers])))


@lru_cache(maxsize=1)
def kept_hospital(folder: Path, seed: int) -> Hospital:
    """A hospital of as many patients as the largest curve needs, drawn once."""
    file = folder / f"hospital_{seed}.pt"
    if not file.is_file():
        torch.save(draw_hospital(seed, 2 * max(PAIRS) + VALIDATION + TEST)._asdict(), file)
    return Hospital(**torch.load(file))


if __name__ == "__main__":
    main()
