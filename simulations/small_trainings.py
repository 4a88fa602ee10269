"""Many small trainings of pairs in one process, for `trained_curves`.

Linear maps, two layers or a small convolutional network of an image of 32 x 32 pixels, and the
words of its report, in the joint space of the global term.

Shapes: N pairs or patients, V words, C findings, F features, P joint space, M models, X texts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

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
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.permuted_pairs import RankSums
from cxrflow.metrics.pooled_auroc import search
from cxrflow.pretrain.inputs import GOLDEN
from cxrflow.text.words import words_of

VALIDATION, TEST = 256, 512  # patients, of whom each has one pair
DRAWN, SIDE, JOINT, RARE = 64, 32, 64, 5  # pixels, the joint space's width; reports of a word
BATCH, VALIDATIONS = 32, 5
PROMPTS = ZeroShotFindingsSettings()
METRICS = ("retrieval AUROC", "zero-shot AUROC", "R@10")


class Recipe(NamedTuple):
    """``pairs``: N; ``temperature``: None is learnt, from 0.07; ``steps``: None by ``epochs``."""

    hospital: int
    shares: tuple[float, ...]
    seeds: int
    image: str
    text: str
    pairs: int
    temperature: float | None
    image_to_text: float
    rate: float
    steps: int | None
    epochs: int | None


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

    def rows(self, share: float, seed: int) -> Tensor:
        """Pairs of a training; 200 is twice the pairs."""
        if share > 100:
            return self.train
        turned_N = (self.place_N + seed * GOLDEN) % 1
        return self.train[: self.of.pairs][turned_N < share / 100 if share < 100 else slice(None)]

    def steps(self, share: float) -> int:
        """Updates of a training on a share of the pairs."""
        batches = self.of.pairs * share / 100 / BATCH
        return self.of.steps or max(VALIDATIONS, round((self.of.epochs or 0) * batches))

    def fit(self, trainings: Sequence[tuple[float, int]], steps: int) -> Weights:
        """Train a model of each share and seed; the weights of least validation loss are kept."""
        weights = self.starts([seed for _, seed in trainings])
        for name, weight in weights.items():
            weight.requires_grad_(name != "log_temperature" or self.of.temperature is None)
        batches = [self._batches(self.rows(*each), steps, each) for each in trainings]
        learning = [weight for weight in weights.values() if weight.requires_grad]
        optimiser = torch.optim.AdamW(learning, self.of.rate, fused=True)
        validated = {steps * (n + 1) // VALIDATIONS for n in range(VALIDATIONS)}
        validation = self.validation[: VALIDATION // BATCH * BATCH].split(BATCH)
        kept: Weights = {}
        least_M = torch.full([len(trainings)], torch.inf)
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
    def _batches(rows: Tensor, steps: int, key: tuple[float, int]) -> Iterator[Tensor]:
        """Rows of each step: whole batches of one order of the rows after another."""
        random = torch.Generator().manual_seed(round(1000 * key[0]) + key[1])
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
        return vmap(of_one, dims)(weights, self.input_N[rows], words[rows])

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
