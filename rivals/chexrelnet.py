"""CheXRelNet (Karwande et al. 2022): graph attention between the regions of two images.

A node is an anatomical region of the prior or of the current image (``regions.py``). Regions of an
image are joined where the same findings stand in both, and each is joined to itself in the prior.
What became of a region follows from its node beside both whole images. All but what is trained is
``temporal_classification``. Facts are of the public code, PLAN-Lab/ChexRelNet; see docs/rivals.md.

Shapes: B pairs, R regions, N = 2 R nodes, the prior's first, F features of the trunk, c cells,
D width of a node, H heads of width W, C classes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from rivals.regions import Graph, Regions, alike, compared_regions, even, read_graphs
from torch import Tensor, nn
from torch.nn.functional import dropout, leaky_relu, nll_loss, one_hot

from cxr_files.atomic import file_digest, remove_damaged
from cxr_files.errors import InputError
from cxrflow.benchmarks.benchmark import rows
from cxrflow.benchmarks.features import weights_file
from cxrflow.benchmarks.inputs import PRIOR
from cxrflow.benchmarks.metric_names import METRICS
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.outside import OutsideBenchmark, OutsideBenchmarkSettings
from cxrflow.benchmarks.result import Predictions, slug
from cxrflow.benchmarks.temporal import head_training, scores, temporal_classification
from cxrflow.benchmarks.temporal.head_training import PairSplits
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs
from cxrflow.benchmarks.temporal.settings import HeadTraining, TemporalClassificationSettings
from cxrflow.benchmarks.temporal.temporal_classification import PairScores
from cxrflow.metrics.intervals import Floats
from cxrflow.training.program import Losses
from cxrflow.training.sampler import UniformSampler
from cxrflow.training.settings import TrainingSettings


class RelationTraining(HeadTraining):
    """Of graph and head, for each finding by itself; the trunk is frozen (code)."""

    name: Literal["relations"] = "relations"
    balanced: bool = Field(
        True, description="as many of each class, drawn by the seed (code); false: weights instead"
    )
    training: TrainingSettings = TrainingSettings(epochs=200)


class RelationSettings(TemporalClassificationSettings, OutsideBenchmarkSettings):
    """The code's sizes, and the paper's side of what code and paper do not share."""

    graphs: Path | None = Field(
        None, description="Chest ImaGenome's folder; null: the hospital's copy in this run"
    )
    max_failed_share: float = Field(0.05, ge=0, le=1, description="of damaged scene graphs")
    registered: Literal[False] = False
    side: int = Field(224, ge=8, description="pixels of a region, and of a whole image")
    cells: int = Field(3, ge=1, description="of the trunk's features, each way")
    regions: int = Field(7, ge=1, description="of an image: those that are compared most")
    alike: float = Field(0.5, ge=0, lt=1, description="an edge's mean Jaccard index is above it")
    node: int = Field(2048, ge=1, description="D")
    hidden: int = Field(1024, ge=1, description="W of the first attention")
    width: int = Field(256, ge=1, description="W of the second one, and of a whole image")
    heads: tuple[int, int] = Field((5, 3), description="of both; the second one's mean is taken")
    head: int = Field(128, ge=1, description="width inside the classifier")
    dropout: float = Field(0.5, ge=0, lt=1)
    joined: Literal["each", "first"] = Field(
        "each", description="pairs of a batch whose nodes have edges; first: the code"
    )
    doubled: bool = Field(False, description="true: edges inside an image count twice (code)")
    learning: RelationTraining = RelationTraining()  # type: ignore[assignment]


class GraphAttention(nn.Module):
    """Attention over edges (Velickovic et al. 2018), as GATConv of torch_geometric has it."""

    def __init__(self, inputs: int, width: int, heads: int, together: bool, rate: float) -> None:
        super().__init__()
        self.shape, self.together, self.rate = (heads, width), together, rate
        self.value = nn.Linear(inputs, heads * width, bias=False)
        self.reader, self.read = (nn.Parameter(torch.empty(self.shape)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(heads * width if together else width))
        for weight in (self.value.weight, self.reader, self.read):
            nn.init.xavier_uniform_(weight)

    def forward(self, nodes_BND: Tensor, edges_BNN: Tensor) -> Tensor:
        """Heads side by side or their mean; ``edges``: how often a node (row) reads another."""
        value_BNHW = self.value(nodes_BND).unflatten(2, self.shape)
        reader_BNH, read_BNH = ((value_BNHW * each).sum(3) for each in (self.reader, self.read))
        score_BNNH = leaky_relu(reader_BNH[:, :, None] + read_BNH[:, None], 0.2)
        weight_BNNH = (score_BNNH + edges_BNN.log()[..., None]).softmax(dim=2)
        weight_BNNH = dropout(weight_BNNH, self.rate, self.training)
        context_BNHW = torch.einsum("bijh,bjhw->bihw", weight_BNNH, value_BNHW)
        return (context_BNHW.flatten(2) if self.together else context_BNHW.mean(2)) + self.bias


class RelationNet(nn.Module):
    """From features of regions and of whole images to what became of each region."""

    edges_NN: Tensor

    def __init__(
        self, settings: RelationSettings, features: int, alike_RR: Tensor, classes: int
    ) -> None:
        super().__init__()
        regions, (first, second) = len(alike_RR), settings.heads
        self.rate, self.first_alone = settings.dropout, settings.joined == "first"
        self.classes = classes
        self.norm = nn.BatchNorm1d(features)
        self.node = nn.Linear(features * settings.cells**2, settings.node)
        self.whole = nn.Linear(settings.node, settings.width)
        sizes = settings.node, settings.hidden, first
        self.first = GraphAttention(*sizes, True, self.rate)
        sizes = first * settings.hidden, settings.width, second
        self.second = GraphAttention(*sizes, False, self.rate)
        self.head = nn.Sequential(
            *(nn.Linear(3 * settings.width, settings.head), nn.LeakyReLU()),
            *(nn.Dropout(self.rate), nn.Linear(settings.head, classes)),
        )
        inside_RR = (alike_RR > settings.alike).float().fill_diagonal_(0)
        edges_NN = torch.block_diag(inside_RR, inside_RR) * (1 + settings.doubled)
        edges_NN[regions:, :regions] = torch.eye(regions)  # an image reads its prior
        self.register_buffer("edges_NN", edges_NN)

    def encoded(self, features_BFc: Tensor) -> Tensor:
        """Of features [B, F, c * c] the vector that is a node's [B, D]."""
        flat = dropout(self.norm(features_BFc).flatten(1), self.rate, self.training)
        return self.node(flat).relu()

    def edges(self, present_BN: Tensor) -> Tensor:
        """How often a node reads another, [B, N, N]; itself once."""
        edges_BNN = self.edges_NN * present_BN[:, :, None] * present_BN[:, None]
        if self.first_alone:
            edges_BNN = torch.cat([edges_BNN[:1], torch.zeros_like(edges_BNN[1:])])
        return edges_BNN + torch.eye(present_BN.shape[1], device=present_BN.device)

    def forward(self, features_B2RFc: Tensor, present_BN: Tensor) -> Tensor:
        """Logits [B, R, C] of features [B, 2, R + 1, F, c * c]; what is not shown is 0."""
        shown = self.encoded(features_B2RFc[:, :, :-1].flatten(1, 2)[present_BN])
        nodes_BND = shown.new_zeros(*present_BN.shape, shown.shape[1])
        nodes_BND[present_BN] = shown
        edges_BNN, regions = self.edges(present_BN), present_BN.shape[1] // 2
        nodes = leaky_relu(self.first(nodes_BND, edges_BNN))
        nodes = dropout(nodes, self.rate, self.training)
        current_BRW = leaky_relu(self.second(nodes, edges_BNN))[:, regions:]
        whole = self.whole(self.encoded(features_B2RFc[:, :, -1].flatten(0, 1)))
        images = whole.view(len(present_BN), 1, -1).expand(-1, regions, -1)
        return self.head(torch.cat([current_BRW, images], dim=2))


class RelationProgram(head_training.HeadTrainingProgram):
    """Cross-entropy of regions that reports compare; a pair's answer is the mean over regions."""

    def __init__(
        self, net: RelationNet, regions: Regions, splits: PairSplits, learning: Any, seed: int
    ) -> None:
        self.image: Any = net.to(regions.device)
        self.head, self.regions, self.splits, self.learning = self.image, regions, splits, learning
        self.modules, self.device = {"head": net}, regions.device
        self.sampler = UniformSampler(len(splits.train), learning.training.batch_size, seed)
        self.batches_per_epoch = self.sampler.batches_per_epoch
        self.classes = net.classes
        weights_C = head_training.class_weights(splits.train.labels, self.classes)
        self.weights_C = weights_C.to(self.device)

    def losses(self, batch: tuple[int, int], micro_batch: int, micro_batches: int) -> Losses:
        drawn, train = self.sampler.rows(*batch), self.splits.train
        total = self.weights_C[torch.from_numpy(train.labels[drawn]).to(self.device)].sum()
        pairs = train.rows(np.array_split(drawn, micro_batches)[micro_batch])
        labels = torch.from_numpy(pairs.labels).to(self.device)
        loss = nll_loss(self.answers(pairs), labels, self.weights_C, reduction="sum") / total
        return Losses(loss, {"cross_entropy": loss.detach()}, len(pairs), 0)

    def answers(self, pairs: ImagePairs) -> Tensor:
        """The logarithm [B, C] of the mean probability over the regions that are asked."""
        features, present_BN = self.regions.of(pairs)
        asked_BR = present_BN.chunk(2, dim=1)[1].float()
        asked_BR = torch.where(asked_BR.sum(1, keepdim=True) > 0, asked_BR, 1)  # which are alike
        if "region" in pairs.table:
            region_B = torch.tensor(pairs.table["region"].to_numpy(), device=self.device)
            asked_BR = one_hot(region_B, asked_BR.shape[1])
        log_BRC = self.head(features, present_BN).float().log_softmax(dim=2)
        share_BR = asked_BR / asked_BR.sum(1, keepdim=True)
        return (log_BRC + share_BR.log()[..., None]).logsumexp(dim=1)

    @torch.no_grad()
    def logits(self, pairs: ImagePairs) -> Tensor:
        size, number = self.learning.training.batch_size, len(pairs)
        parts = np.split(np.arange(number), range(size, number, size))
        return torch.cat([self.answers(pairs.rows(part)) for part in parts]).cpu()


class Relating:
    """The inputs of temporal classification, where the network answers for a model."""

    def __init__(self, inputs: ModelInputs) -> None:
        self._inputs = inputs
        self.encoded: tuple[str, Regions] | None = None  # of the last finding
        self.account: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inputs, name)

    def ask(self, own: Callable[..., Any], *asked: Any) -> Any:
        """The answer of what is scored."""
        if self._inputs.row is not None or own is not temporal_classification.scores:
            return self._inputs.ask(own, *asked)
        return self.scores(*asked)

    def scores(self, settings: RelationSettings) -> PairScores:
        """What scores the pairs of each finding."""
        table, results = self._inputs.cohort.table, self._inputs.options.cohort.parents[2]
        root = settings.graphs or results / "phantom/chest_imagenome"
        graphs, tally = read_graphs(root, sorted({*table["image_id"], *table[PRIOR]}))
        tally.require_few(root, settings.max_failed_share)
        self.account = {"scene_graphs": tally.as_json(), "relations": {}}
        scorer = partial(self.trained, settings, graphs)
        return PairScores(self._inputs.pixels, scorer, "graph of both images' regions")

    def trained(
        self,
        settings: RelationSettings,
        graphs: Mapping[str, Graph],
        finding: str,
        splits: PairSplits,
        seed: int,
    ) -> Mapping[str, Floats]:
        """The probabilities [N, C] of each set of test pairs by a run of training."""
        from cxrflow.training.engine import Engine  # and TensorBoard

        inputs, learning, pixels = self._inputs, settings.learning, self._inputs.pixels
        compared = compared_regions(splits.train, graphs, finding)
        counts = Counter(region for _, region in compared)
        names = sorted(counts, key=lambda name: (-counts[name], name))[: settings.regions]
        if self.encoded is None or self.encoded[0] != finding:
            parts = (splits.train, splits.validate, *splits.test.values())
            regions = Regions(names, pixels, inputs.image.encoder, settings.side, settings.cells)
            seen = [row for part in parts for row in (part.current, part.prior)]
            regions.encode(np.unique(np.concatenate(seen)), graphs)
            self.encoded = finding, regions
        regions = self.encoded[1]
        train = regions.compared_in(splits.train, compared)
        train = even(train, seed) if learning.balanced else train
        if len({*train.labels}) < len(inputs.cohort.classes):
            raise InputError(
                f"{inputs.source}: {finding} has {len(train)} regions to learn from, by "
                f"{len(graphs)} scene graphs; expected some of {', '.join(inputs.cohort.classes)}"
            )
        self.account["relations"][finding] = {"regions": regions.names, "samples": len(train)}
        torch.manual_seed(seed)
        learnt = [graphs[image] for image in splits.train.table["image_id"] if image in graphs]
        features, classes = regions.features_MRFc.shape[2], len(inputs.cohort.classes)
        net = RelationNet(settings, features, alike(regions.names, learnt), classes)
        program = RelationProgram(net, regions, splits._replace(train=train), learning, seed)
        digest = file_digest(weights_file(inputs.options.model))[:16]
        identity = {
            **{"model": f"{slug(finding)}, seed {seed}", "program": "relations", "seed": seed},
            "settings": settings.model_dump(mode="json"),
            "data": {"pairs": inputs.cohort.fingerprint(pixels), "image": digest},
        }
        folder = inputs.options.state / f"{slug(finding)}{seed}"
        remove_damaged(folder / "scores")
        engine = Engine(program, learning.training, seed, identity, ("a smaller batch_size",))
        engine.run(folder / "state", folder / "scores")
        return {name: np.load(folder / f"scores/{name}.npy") for name in splits.test}


class Relations(OutsideBenchmark):
    """Temporal classification by the network on the frozen trunk of a model."""

    settings: RelationSettings
    description: ClassVar[dict[str, Any]] = {
        **{"kind": "progression", "needs": ["image"], "reads": "pixels", "split": True},
        **{"own": ("two_images",), "resumes": True},
        **rows(
            *("nothing", "random", "current_optimum", "thumbnail_optimum"),
            oracle="answers",
            second_reader="second_readings",
        ),
        "baselines": "rows.changes:Changes",
    }
    metrics = METRICS["temporal_classification"]
    COLUMNS = temporal_classification.COLUMNS
    statistic = staticmethod(scores.statistic)

    @staticmethod
    def predict(inputs: ModelInputs, settings: RelationSettings) -> Predictions:
        asked: Any = Relating(inputs)
        predictions = temporal_classification.predict(asked, settings)
        return replace(predictions, data={**predictions.data, **asked.account})
