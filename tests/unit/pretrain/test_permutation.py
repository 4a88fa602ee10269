"""Whether a training has learnt: every term's loss beside that of permuted pairs."""

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.metrics.permuted_pairs import DRAWS
from cxrflow.metrics.twins import TWINS
from cxrflow.models.run_record import beside_twins, learnt, learnt_in_words
from cxrflow.objectives.pair_matching import pair_matching
from cxrflow.objectives.token_alignment import TokenMatching
from cxrflow.pretrain.objective import Batch, MaskedText, Term, WrittenText
from cxrflow.pretrain.registry import TERMS
from cxrflow.pretrain.validation.permutation import Comparisons, PairGroup, Validated, Validation
from cxrflow.pretrain.validation.twins import shuffled_ranks
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses
from cxrflow.training.samples import SampleTable

N, P, C = 6, 4, 3
Case = tuple[Any, Callable[[Tensor], Any]]  # a term, and views with answers in another order


def kind_of(name: str) -> Any:
    module = import_module(f"cxrflow.pretrain.terms.{name}")
    return getattr(module, name.title().replace("_", ""))


def build(name: str, encoders: Any = None, **settings: Any) -> Any:
    """A term with its default settings but for these."""
    return kind_of(name)(TERMS[name](**settings), encoders)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def batch(labels: Any = None) -> Batch:
    return Batch(np.arange(N), 0, 0, ALONE, SampleTable(range(N), labels=labels))


def projections(image: Tensor, text: Tensor) -> Any:
    texts = {
        "intact": SimpleNamespace(projected=text),
        "findings": SimpleNamespace(projected=image),
    }
    texts |= {"augmented": SimpleNamespace(projected=text + 1)}
    texts |= {"impression": texts["intact"], "other": SimpleNamespace(projected=drawn(N, P) + 1)}
    view = SimpleNamespace(projected_global=image, unnormalised_patches=image[:, None, None])
    return SimpleNamespace(batch=batch(), images=[view, view], texts=texts, equal_texts=None)


IMAGE, TEXT = drawn(N, P), drawn(P, N).T
POOLED = SimpleNamespace(
    trunk=torch.nn.Linear(1, 1),
    image=SimpleNamespace(settings=SimpleNamespace(projection=P)),
    samples=SampleTable(range(9), classes=tuple("abc")),
    ghost_batch=None,
)
POOLED.trunk.features = P


def of_pooled(answers: Any = None, second: Tensor = TEXT) -> Any:
    images = [SimpleNamespace(pooled=pooled) for pooled in (IMAGE, second)]
    return SimpleNamespace(batch=batch(answers), images=images)


def of_sentence_pairs(answers: Any) -> Any:
    encoder = SimpleNamespace(project=lambda states: states[:, 0, :C])
    pair = SimpleNamespace(encoder=encoder, states=[IMAGE[:, None]])
    return SimpleNamespace(batch=batch(answers), texts={"pair": pair})


def stateless(name: str, **parts: Any) -> Any:
    """What a term makes of ``parts``, which it would compute of encoders and views."""
    kind, term = kind_of(name), SimpleNamespace(**parts)
    return SimpleNamespace(
        loss=partial(kind.loss, term), comparisons=partial(kind.comparisons, term)
    )


def of_pairs(name: str, encoders: Any = None, **settings: Any) -> Callable[[], Case]:
    """A term of the projections of images and texts."""
    term = partial(build, name, encoders, **settings)
    return lambda: (term(), lambda order: projections(IMAGE, TEXT[order]))


def of_views(name: str) -> Callable[[], Case]:
    """A term of two views of images, between whose heads no samples are normalised together."""
    return lambda: (build(name, POOLED).eval(), lambda order: of_pooled(second=TEXT[order]))


def of_momentum() -> Case:
    term = build("momentum_contrast", POOLED, queue=9, output=P)
    keys = normalize(TEXT, dim=1)

    def views(order: Tensor) -> Any:
        term.keys = lambda views: (keys[order], slice(None))
        return of_pooled()

    return term, views


def of_local() -> Case:
    scores = drawn(N, N)
    term = stateless("local_alignment", _scores=lambda scores: (scores, slice(None)))
    return term, lambda order: scores[:, order]


def of_tokens() -> Case:
    """Three words and four patches of each pair; some texts have two words."""
    words = drawn(N, 3, P)
    is_word = torch.arange(3) < torch.tensor([3, 2, 3, 3, 2, 3])[:, None]
    weights = is_word / is_word.sum(1, keepdim=True)
    patches = drawn(N, 4, P), torch.full((N, 4), 0.25)
    term = stateless(
        "token_alignment",
        _words=lambda views: [part[views.order] for part in (words, is_word, weights)],
        _patches=lambda views: patches,
        matching=TokenMatching(),
    )
    return term, lambda order: SimpleNamespace(order=order, batch=batch())


def of_mirrored() -> Case:
    """Three images with their mirror images; texts are exchanged between the two."""
    scores = drawn(N // 2, 2, 2)

    def views(order: Tensor) -> Any:
        columns = order.view(-1, 1, 2) % 2
        return SimpleNamespace(scores=scores.gather(2, columns.expand(-1, 2, -1)), batch=batch())

    own = torch.arange(N // 2)
    return stateless("mirrored_pairs", _scores=lambda views: (views.scores, own)), views


def of_neighbours() -> Case:
    term = build("neighbours", POOLED, start="random")
    nearest = term.nearest

    def views(order: Tensor) -> Any:
        term.nearest = lambda text, study: nearest(text, study)[order]
        return projections(IMAGE, TEXT)

    return term, views


class Reports:
    """A writer whose logits depend on the image alone; report i has i % 3 + 1 tokens."""

    samples = N

    def __init__(self, order: Tensor) -> None:
        self.order, self.reports = order, torch.arange(N).repeat_interleave(torch.arange(N) % 3 + 1)

    @property
    def written(self) -> WrittenText:
        return self.written_beside(torch.arange(N))

    def written_beside(self, images: Tensor) -> WrittenText:
        logits_TV = IMAGE[self.order.argsort()[images]][self.reports]
        targets_T = torch.arange(len(self.reports)) % P
        return WrittenText(logits_TV, targets_T, len(targets_T), self.reports)


def of_masked(order: Tensor) -> Any:
    """Places of two texts; those of a text alone change their words."""
    targets, texts = torch.tensor([2, 0, 3, 1, 1, 3]), torch.tensor([0, 0, 0, 1, 1, 1])
    masked = MaskedText(IMAGE, targets[order], N, 2, texts)
    return SimpleNamespace(masked=[masked], batch=batch())


CLASSES, FINDINGS = np.arange(N) % C, drawn(N, C).gt(0).numpy().astype("float32")
FINDINGS[1, 0] = FINDINGS[4] = np.nan
ANY, WITHIN, SWAP = [3, 0, 4, 1, 5, 2], [2, 0, 1, 4, 5, 3], [1, 0, 2, 3, 5, 4]
CASES: dict[str, tuple[Callable[[], Case], list[int]]] = {
    "global_alignment": (of_pairs("global_alignment"), ANY),
    "section_matching": (of_pairs("section_matching"), ANY),
    "local_alignment": (of_local, ANY),
    "token_alignment": (of_tokens, ANY),
    "prototypes": (of_pairs("prototypes", POOLED, number=7), ANY),
    "mirrored_pairs": (of_mirrored, SWAP),
    "multi_view": (of_pairs("multi_view"), ANY),
    "neighbours": (of_neighbours, ANY),
    "simclr": (of_views("simclr"), ANY),
    "plain_simclr": (of_views("plain_simclr"), ANY),
    "momentum_contrast": (of_momentum, ANY),
    "pair_matching": (of_pairs("pair_matching", POOLED), ANY),
    "classification": (
        lambda: (build("classification", POOLED), lambda order: of_pooled(CLASSES[order])), ANY),
    "findings": (
        lambda: (build("findings", POOLED, classes=list("abc"), dropout=0),
                 lambda order: of_pooled(FINDINGS[order])), ANY),
    "entailment": (
        lambda: (build("entailment", dropout=0), lambda order: of_sentence_pairs(CLASSES[order])),
        ANY),
    "mlm": (lambda: (build("mlm"), of_masked), WITHIN),
    "report_likelihood": (lambda: (build("report_likelihood"), Reports), SWAP),
}  # fmt: skip


def test_every_term_has_pairs_that_can_be_permuted() -> None:
    # The one pairs nothing, the other makes no pairs in validation.
    assert TERMS.keys() - CASES.keys() == {"doubly_stochastic", "cutmix"}
    assert Term.comparisons(build("section_matching"), None) is None
    assert all(kind_of(name).pairs for name in CASES)


@pytest.mark.parametrize("name", CASES)
def test_scores_say_what_a_permutation_does_to_the_loss(name: str) -> None:
    case, order = CASES[name]
    term, views = case()
    with torch.no_grad():
        before, after = (float(term.loss(views(torch.tensor(o)))) for o in (range(N), order))
        compared = term.comparisons(views(torch.arange(N)))
    change, pairs = 0.0, 0
    begin = 0
    for group in compared.groups:
        places = torch.tensor(order[begin : begin + len(group.score_KK)]) - begin
        change += float((group.score_KK.diag() - group.score_KK[range(len(places)), places]).sum())
        begin, pairs = begin + len(places), pairs + len(places)
    assert pairs == N and before != after
    # The losses are float32, their difference small beside them.
    wanted = pytest.approx(compared.slope * change / pairs, rel=1e-4, abs=1e-6 * abs(before))
    assert after - before == wanted


def test_false_texts_of_pair_matching_stay() -> None:
    real, fake = drawn(5), drawn(5) + 1
    halves = -logsigmoid(real).mean() / 2 - logsigmoid(-fake).mean() / 2
    assert float(pair_matching(real, fake, 5)) == pytest.approx(float(halves))


def validated(
    score: Tensor, loss: float = 1.0, names: str = "a", slope: float = 1.0, counts: Any = None
) -> Validated:
    terms = dict.fromkeys(names, torch.tensor(loss))
    compared = dict.fromkeys(names, Comparisons.of_batch(score, slope))
    return Validated(Losses(torch.tensor(loss), terms, len(score), 0), compared, counts)


def paired(scores: dict[str, Tensor | None]) -> Validated:
    """Terms of a loss of 1, and the scores that they compare; None: it has none."""
    compared = {n: None if s is None else Comparisons.of_batch(s) for n, s in scores.items()}
    losses = Losses(torch.tensor(1.0), dict.fromkeys(scores, torch.tensor(1.0)), 12, 0)
    return Validated(losses, compared)


def record(*batches: Validated, pairs: Any = None, **options: Any) -> dict[str, Any]:
    found = Validation(batches, ALONE)
    said: dict[str, Any] = found.record(pairs or {"a": "x"}, **options)["permuted_pairs"]
    return said


SIGNAL = torch.eye(12)  # every true pair scores more than any other


def test_the_record_of_a_model_that_knows_its_pairs_and_of_one_that_does_not() -> None:
    said = record(validated(SIGNAL, slope=2.0))
    term = said["terms"]["a"]
    assert said["differs"] is True and term["p"] == 1 / (1 + DRAWS)
    # Of true pairs a permutation keeps one on average: a twelfth.
    assert term["permuted"]["value"] == pytest.approx(1 + 2 * (1 - 1 / 12), abs=0.02)
    assert 1 < term["permuted"]["low"] < term["permuted"]["value"] <= term["permuted"]["high"]
    assert term["rank"] == pytest.approx({"value": 1.0, "low": 1.0, "high": 1.0})
    assert term["loss"] == 1
    said = record(validated(torch.ones(12, 12)))
    assert said["differs"] is False and said["terms"]["a"]["p"] == 1
    assert said["terms"]["a"]["rank"] is None  # no candidate differs from the true one


def test_terms_that_pair_the_same_answer_one_question() -> None:
    weak = drawn(12, 12)
    names = {"a": "image and text", "b": "image and text", "c": "place and word"}
    for scores, differs in (
        ((SIGNAL, weak, SIGNAL), True),
        ((SIGNAL, SIGNAL, weak), False),
        ((weak, weak, SIGNAL), False),
    ):
        judged = paired(dict(zip(names, scores, strict=True)))
        assert record(judged, pairs=names)["differs"] is differs


def test_twins_answer_in_the_place_of_permuted_pairs() -> None:
    """Only the question they were asked; the others stay with permuted pairs."""
    weak = drawn(12, 12)
    names = {"a": "image and text", "b": "place and word"}

    def answer(scores: Any, shuffled: Any = None, **twins: list[float]) -> dict[str, Any]:
        found = Validation([paired(dict(zip(names, scores, strict=True)))], ALONE)
        said: dict[str, Any] = found.record(names, None, twins, shuffled)
        return said

    spread = np.linspace(0.4, 0.6, TWINS).tolist()
    said = answer((SIGNAL, SIGNAL), a=spread)
    assert said["pairs_learnt"] is True and learnt(said) is True
    assert list(beside_twins(said)) == [("a", 1.0, spread, 1 / (1 + TWINS))]
    # It differs from permuted pairs, as do its twins.
    said = answer((SIGNAL, SIGNAL), a=[*spread[1:], 1.0])
    assert said["permuted_pairs"]["differs"] is True and said["pairs_learnt"] is False
    assert said["twins"]["image and text"]["p"] == 2 / (1 + TWINS)
    assert answer((SIGNAL, weak), a=spread)["pairs_learnt"] is False
    assert answer((weak, SIGNAL), a=[0.1] * TWINS)["pairs_learnt"] is True
    assert "twins" not in answer((SIGNAL, SIGNAL))
    # Models of shuffled pairs are twins beside them, above which it must be as well.
    said = answer((SIGNAL, SIGNAL), {"a": [0.7, 0.8]}, a=spread)
    assert said["pairs_learnt"] is True
    term = said["twins"]["image and text"]["terms"]["a"]
    assert (term["untrained"], term["shuffled"]) == (spread, [0.7, 0.8])
    assert said["twins"]["image and text"]["p"] == 1 / (3 + TWINS)
    assert answer((SIGNAL, SIGNAL), {"a": [0.7, 1.0]}, a=spread)["pairs_learnt"] is False


SETTINGS = {"length": 8, "shuffled_pairs": False, "training": {"steps": 4}}
DATA = {"fingerprint": "f", "pixels": "p", "text": "t", "image": "i"}


@pytest.mark.parametrize(
    ("of_twin", "data", "error"),
    [
        ({"shuffled_pairs": True, "training": {"steps": 4, "checkpoint_validations": 2}}, {}, ""),
        ({"shuffled_pairs": False}, {}, "setting 'shuffled_pairs' is False; expected True"),
        ({"shuffled_pairs": True, "length": 9}, {}, "setting 'length' is 9; expected 8"),
        ({"shuffled_pairs": True, "more": 1}, {}, "setting 'more' is 1; expected None"),
        ({"shuffled_pairs": True}, {"pixels": "q"}, "field 'data.pixels' is 'q'; expected 'p'"),
    ],
)
def test_a_twin_of_shuffled_pairs_differs_in_nothing_else(tmp_path, of_twin, data, error):
    terms = {"a": {"rank": {"value": 0.52}}, "b": {"rank": None}}
    run = {"settings": SETTINGS | of_twin, "data": DATA | data, "permuted_pairs": {"terms": terms}}
    write_json(tmp_path / "run.json", run)
    if error:
        with pytest.raises(InputError, match=re.escape(f"run.json: {error}")):
            shuffled_ranks([tmp_path], SETTINGS, DATA)
    else:
        assert shuffled_ranks([tmp_path] * 2, SETTINGS, DATA) == {"a": [0.52, 0.52]}
    # A record from before there were twins.
    assert learnt({"permuted_pairs": {"differs": False}}) is False and learnt({}) is None


def test_others_do_not_answer_for_a_term_that_compares_nothing() -> None:
    """A loss of images and texts from outside without scores: masked words alone are known."""
    names = {"mine": "image and text", "mlm": "masked place and word"}
    for scores, answer in ((SIGNAL, None), (drawn(12, 12), False)):
        said = Validation([paired({"mine": None, "mlm": scores})], ALONE).record(names)
        assert said["pairs_learnt"] is answer
        assert ("HAS NOT LEARNT" if answer is False else "is not known") in learnt_in_words(said)


def test_a_log_ends_with_the_ranks_of_its_twins() -> None:
    terms = {"pairs": {"rank": 0.52, "untrained": [0.48, 0.53]}}
    said = {"pairs_learnt": False, "twins": {"image and text": {"p": 0.1, "terms": terms}}}
    assert learnt_in_words(said).endswith(
        "(pairs: rank of the true pair 0.520, of untrained starts 0.480 to 0.530)"
    )


def test_a_term_without_pairs_is_not_judged() -> None:
    losses = Losses(torch.tensor(9.0), {"a": torch.tensor(9.0)}, 4, 0)
    for compared in (None, Comparisons([PairGroup(torch.ones(1, 1), np.zeros(1, int))])):
        assert record(Validated(losses, {"a": compared})) == {
            "differs": None,
            "terms": {"a": {"loss": 9.0, "p": None, "permuted": None, "rank": None}},
        }


def test_each_patient_counts_once() -> None:
    table = SampleTable(range(5), patients=np.array(["p", "q", "p", "r", "q"]))
    assert table.first_of_patients(np.array([4, 3, 1, 2, 0])).tolist() == [2, 4, 3]
    assert SampleTable(range(3)).first_of_patients(np.array([2, 0])).tolist() == [2, 0]
    counts = np.array([True, False] * 6)
    alone, part = record(validated(SIGNAL[:6, :6])), record(validated(SIGNAL, counts=counts))
    assert part == alone


class Two(Processes):
    """This process beside one that has the same batches."""

    def collect(self, value: Any) -> list[Any]:
        return [value, value]


def test_batches_of_all_processes_count() -> None:
    found = Validation([validated(SIGNAL), validated(SIGNAL, 2.0)], Two())
    assert found.means() == {"a": 1.5, "loss": 1.5} and len(found.losses) == 4
    assert found.tallies["a"].pairs == 48 == found.tallies["a"].true


def test_the_best_of_several_validations_is_compared_with_such() -> None:
    found = Validation([validated(drawn(30, 30) + 0.3 * torch.eye(30))], ALONE)
    permuted_D = dict(found.permuted())["a"]
    # Another validation in which other permutations do well.
    smallest = torch.minimum(permuted_D, permuted_D.roll(1))
    ps = []
    for limit_D, given in ((permuted_D, None), (smallest, {"a": smallest})):
        term = found.record({"a": "x"}, given)["permuted_pairs"]["terms"]["a"]
        ps.append(term["p"])
        assert term["p"] == (1 + int((limit_D <= 1).sum())) / (1 + DRAWS)
        assert term["permuted"]["low"] == pytest.approx(float(limit_D.quantile(0.05)))
        assert term["permuted"]["value"] == pytest.approx(float(permuted_D.mean()))
    assert ps[0] < ps[1] < 2 * ps[0]
