"""IFCC (Miura et al. 2021): a meshed-memory transformer that learns from rewards of what it writes.

The transformer is Cornia et al.'s (2020), or as ysmiura/ifcc has it. After cross-entropy comes
self-critical training (Rennie et al. 2017): a drawn report becomes likelier as far as its reward
exceeds that of the greedy one. docs/rivals.md says what differs here.

Shapes: B images, M patches of F features, L tokens, T predicted, V pieces; N pairs of texts, of Q
and K tokens, D width.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from rivals.fact_ent import Facts, entity_match
from rivals.r2gen import Attention
from rivals.radnli_baseline import SentencePairModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.nn.utils.rnn import pad_sequence

from cxr_files.errors import InputError
from cxr_labels.sentences import RuleSplitter
from cxrflow.encoders import captioning_transformer as meshed
from cxrflow.encoders.captioning import CaptionerConfig
from cxrflow.encoders.cxr_bert import load_text_encoder, require_embeddings
from cxrflow.encoders.decoding import Search
from cxrflow.encoders.settings import TransformerCaptioningSettings
from cxrflow.metrics.intervals import Floats
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.base_settings import OutsideTermSettings
from cxrflow.pretrain.writing.captions import CaptionProgram
from cxrflow.pretrain.writing.program import WrittenViews
from cxrflow.text.tokenizer import VocabularyInfo, ids_of, read_tokenizer
from cxrflow.text.words import words_of

# --- the transformer ------------------------------------------------------------------------------


class IfccSettings(TransformerCaptioningSettings):
    """Sizes, and what Cornia et al.'s equations and the public code do not share."""

    kind: str  # type: ignore[assignment]
    mesh: Literal["equations", "code"] = Field(
        "equations",
        description="shortcut and norm: around the sum over levels (Eq. 5), or each of it (code)",
    )
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="of its weights; code: 0.1")


class DroppingAttention(meshed.MemoryAttention):
    """With dropout of its weights."""

    def __init__(self, settings: IfccSettings, memory: int = 0) -> None:
        super().__init__(settings, memory)
        self.dropout = settings.attention_dropout

    def forward(self, states: Tensor, attended: meshed.Attended, causal: bool = False) -> Tensor:
        return Attention.forward(self, states, attended, causal)  # type: ignore[arg-type]


class NormedAttention(DroppingAttention):
    """With a shortcut of its own, normalised."""

    def __init__(self, settings: IfccSettings) -> None:
        super().__init__(settings)
        self.after = meshed.AddNorm(settings)

    def forward(self, states: Tensor, attended: meshed.Attended, causal: bool = False) -> Tensor:
        return self.after(states, super().forward(states, attended, causal))


class RootScaled(nn.Module):
    """The sum over levels, over the root of their number; no shortcut."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.scale = levels**-0.5

    def forward(self, words: Tensor, mesh: Tensor) -> Tensor:
        return self.scale * mesh


class MeshedMemoryTransformer(meshed.Decoder):
    """The package's, with what the public code does otherwise."""

    # By this the package finds the class of its settings; the property of the base is of texts.
    settings: IfccSettings  # type: ignore[assignment]

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        settings: Any = config.captioning
        for encoder in self.encoder:
            encoder.attention = DroppingAttention(settings, settings.memory)
        for layer in self.layers:
            layer.own, layer.cross = DroppingAttention(settings), DroppingAttention(settings)
            if settings.mesh == "code":
                layer.cross = NormedAttention(settings)
                layer.after_mesh = RootScaled(settings.layers)


# --- rewards, and training by them ----------------------------------------------------------------


class BertScore:
    """BERTScore's F (Zhang et al. 2020, section 3), without idf, rescaling and values below 0.

    [CLS] and [SEP] may be matched, as in the package bert-score, but do not count. A text that is
    too long for the encoder loses its end.
    """

    def __init__(self, folder: Path, layer: int | None, device: torch.device) -> None:
        self.tokenizer, self.bert = read_tokenizer(folder), load_text_encoder(folder).to(device)
        require_embeddings(self.bert, self.tokenizer.get_vocab_size(), folder)
        self.special = VocabularyInfo.from_tokenizer(self.tokenizer, str(folder))
        layers, self.device = self.bert.config.num_hidden_layers, device
        if layer is not None and layer > layers:
            raise InputError(f"settings: key 'bert_layer' is {layer}; {folder} has {layers} layers")
        self.last = layers + 1 - (layer or layers)

    def states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Token states [N, L, D] of length 1, 0 at padding, and which tokens count [N, L]."""
        room = self.bert.config.max_position_embeddings - 2
        pieces = [ids[:room] for ids in ids_of(self.tokenizer, texts)]
        rows = [torch.tensor([self.special.cls_, *ids, self.special.sep]) for ids in pieces]
        ids_NL = pad_sequence(rows, batch_first=True).to(self.device)
        length_N = torch.tensor([len(row) for row in rows], device=self.device)
        place_L = torch.arange(ids_NL.shape[1], device=self.device)
        mask_NL = (place_L < length_N[:, None]).long()
        states_NLD = self.bert.last_states(ids_NL, mask_NL, self.last)[0]
        counts_NL = (place_L > 0) & (place_L < length_N[:, None] - 1)
        return normalize(states_NLD, dim=2), counts_NL

    @torch.no_grad()
    def __call__(self, *texts: Sequence[str]) -> Floats:
        """Of N references and N others, [N]; 0 of an empty text. A text is read once."""
        place = {text: row for row, text in enumerate(dict.fromkeys(chain(*texts)))}
        if not place:
            return np.zeros(0)
        states_TLD, counts_TL = self.states([*place])
        rows_2N = torch.tensor([[place[text] for text in side] for side in texts])
        parts = rows_2N.to(self.device).split(256, dim=1)  # so that they fit in memory
        return np.concatenate([self._of(states_TLD, counts_TL, *rows) for rows in parts])

    def _of(self, states_TLD: Tensor, counts_TL: Tensor, ref_N: Tensor, hyp_N: Tensor) -> Floats:
        cosine_NQK = states_TLD[ref_N] @ states_TLD[hyp_N].transpose(1, 2)
        recall_N, precision_N = (
            (cosine_NQK.float().clamp(min=0).amax(axis) * counts).sum(1)
            / counts.sum(1).clamp(min=1)
            for axis, counts in ((2, counts_TL[ref_N]), (1, counts_TL[hyp_N]))
        )
        f_N = 2 * precision_N * recall_N / (precision_N + recall_N).clamp(min=1e-9)
        return f_N.double().cpu().numpy()


class SelfCriticalSettings(OutsideTermSettings):
    """What the reward is made of, each part by its weight; the defaults are the paper's."""

    title = "Reward of a drawn report"

    cider_d: float = Field(0.0, ge=0, description="CIDEr-D, in [0, 10]")
    bert_score: float = Field(0.0, ge=0, description="BERTScore by the recipe's `text`")
    entities: float = Field(0.0, ge=0, description="fact_ENT, by phrases of our labeller")
    bert_layer: int | None = Field(None, ge=1, description="of BERTScore; null: the last")
    repeated: bool = Field(False, description="fact_ENT: repeated entities of a reference (code)")
    inferred: Literal["model", "states"] | None = Field(
        None,
        description="fact_ENTNLI: by `text`, a model of the program sentence_pairs, or by the "
        "states that our labeller reads; null: fact_ENT",
    )
    likelihood: Literal["report", "word"] = Field("report", description="word: a mean (code)")

    @model_validator(mode="after")
    def _some_reward(self) -> Self:
        if not (self.cider_d or self.bert_score or self.entities):
            raise ValueError("cider_d, bert_score and entities are 0; expected one above 0")
        if not self.entities and (self.inferred or self.repeated):
            name = "inferred" if self.inferred else "repeated"
            raise ValueError(f"{name} is set, but entities is 0; expected entities above 0")
        if self.bert_layer and not self.bert_score and self.inferred != "model":
            raise ValueError(
                "bert_layer is set, but no BERTScore is taken; expected bert_score above 0, or "
                "inferred: model"
            )
        return self


class Rewards:
    """The weighted sum of the rewards of what a captioner's program writes."""

    def __init__(self, settings: SelfCriticalSettings, program: CaptionProgram) -> None:
        self.settings, self.cider, self.splitter = settings, program.cider, RuleSplitter()
        reads = {"bert_score": settings.bert_score, "inferred": settings.inferred == "model"}
        model: SentencePairModel | None = None
        self.bert: BertScore | None = None
        for key in filter(reads.get, reads):
            if (reader := program.texts.reader) is None:
                raise InputError(f"settings: key '{key}' is set; expected --text beside it")
            self.bert = BertScore(reader, settings.bert_layer, program.run.device)
            if key == "inferred":
                model = SentencePairModel(reader, program.run.device)
        self.facts = Facts(settings.inferred, model, self.bert)

    def __call__(self, *texts: Sequence[str]) -> Floats:
        """The reward [N] of each report, after whose references it stands: two lists."""
        settings, total_N = self.settings, np.zeros(len(texts[0]))
        if settings.cider_d:
            words = [[words_of(text) for text in side] for side in texts]
            total_N += settings.cider_d * self.cider.cider_d(*words)
        if settings.bert_score and self.bert is not None:
            total_N += settings.bert_score * self.bert(*texts)
        if settings.entities:
            split = [self.splitter.split(side) for side in texts]
            named = self.facts(*split)
            matches = [entity_match(a, b, settings.repeated) for a, b in named]
            total_N += settings.entities * np.array(matches)
        return total_N


def drawn(decoder: Any, patches_BMF: Tensor, first: int, search: Search) -> Tensor:
    """A text of each image, word by word by the model's probabilities; ends fill it up [B, L]."""
    reading, columns = decoder.reading(patches_BMF), list[Tensor]()
    token_B = torch.full((len(patches_BMF),), first, device=patches_BMF.device)
    open_B = torch.ones_like(token_B, dtype=torch.bool)
    while len(columns) < search.longest and bool(open_B.any()):
        logits_BV = decoder.cls(reading.next(token_B)).float()
        choice_B = torch.multinomial(logits_BV.softmax(dim=1), 1)[:, 0]
        token_B = choice_B.where(open_B, search.end)
        open_B = token_B != search.end
        columns.append(token_B)
    return torch.stack(columns, dim=1)


def log_likelihoods(
    decoder: Any, patches_BMF: Tensor, first: int, texts_BL: Tensor, end: int, by_word: bool
) -> Tensor:
    """Of each text up to its first end, [B]; ``by_word``: the mean over its tokens."""
    ends_BL = (texts_BL == end).long()
    counts_BL = ends_BL.cumsum(1) == ends_BL
    rows_T, places_T = counts_BL.nonzero().T
    ids_BL = torch.cat([torch.full_like(texts_BL[:, :1], first), texts_BL], dim=1)
    logits_TV = decoder(ids_BL, patches_BMF, rows_T * ids_BL.shape[1] + places_T).logits
    losses_T = cross_entropy(logits_TV, texts_BL[counts_BL], reduction="none")
    log_B = losses_T.new_zeros(len(texts_BL)).index_add(0, rows_T, -losses_T)
    return log_B / counts_BL.sum(1) if by_word else log_B


class SelfCritical(Term):
    """Minus the gain in reward of a drawn report over the greedy one, times its log-likelihood.

    Dropout of the captioner rests meanwhile. In validation: minus the greedy reports' reward.
    """

    settings: SelfCriticalSettings
    compares = False

    def __init__(self, settings: SelfCriticalSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.means = {"drawn": 0.0, "greedy": 0.0}
        self.rewards: Rewards | None = None  # made when the program is

    def loss(self, views: Views) -> Tensor:
        program: Any = getattr(views, "program", None)
        if not (isinstance(views, WrittenViews) and isinstance(program, CaptionProgram)):
            raise InputError(f"terms: {self.settings.kind} is of the program caption alone")
        rewards = self.rewards = self.rewards or Rewards(self.settings, program)
        rows, decoder, texts = views.batch.own, program.decoder, program.texts
        prompts, reports = texts.prompts[views.split], texts.reports[views.split]
        search = Search(program.settings.decoder.report_length, prompts.end)
        patches_BMF, first = views.patches_BMF, prompts.prompts[0][0]
        tokenizer, share = read_tokenizer(texts.tokenizer), 1 / len(views.batch.rows)

        def rewards_of(name: str, ids: list[list[int]]) -> Tensor:
            rewards_B = rewards([reports[row] for row in rows], tokenizer.decode_batch(ids))
            self.means[name] = float(rewards_B.sum()) * share
            return torch.tensor(rewards_B, dtype=torch.float32, device=patches_BMF.device)

        decoder.eval()
        seen_BMF, by_word = patches_BMF.detach(), self.settings.likelihood == "word"
        greedy_B = rewards_of("greedy", decoder.write([[first]] * len(rows), seen_BMF, search))
        if not self.training:
            return -greedy_B.sum() * share
        with torch.no_grad():
            texts_BL = drawn(decoder, seen_BMF, first, search)
        gain_B = rewards_of("drawn", texts_BL.tolist()) - greedy_B
        log_B = log_likelihoods(decoder, patches_BMF, first, texts_BL, search.end, by_word)
        decoder.train()
        return -(gain_B * log_B).sum() * share

    def logged(self) -> dict[str, float | Tensor]:
        """The mean rewards of the last batch."""
        return dict(self.means)
