"""Joint training with DeCLIP's terms: which views are read, and that the plain terms stay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from literal import identical, in_float64, unit
from pydantic import ValidationError
from small_programs import IMAGE, image_text_program
from small_text import MINIMAL, REPORTS, write_text_model
from test_further_pairs import GLORIA, gloria, info_nce
from torch import Tensor

from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.encoders.image_encoder import Frames
from cxrflow.images.augment import StoredPixels
from cxrflow.pretrain.objective import Batch, Views
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram, neighbours
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.training.processes import ALONE

__all__ = ["in_float64"]
SAMPLES, ROWS = 24, np.array([5, 0, 20, 11])
GLOBAL = {"global_alignment": {}}
CROPPED = {"augmentation": {"second_crop": {}}}


class Images:
    """Stored images of the samples, by row."""

    priors = np.full(SAMPLES, -1)

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.randint(256, (SAMPLES, 64, 64), generator=generator, dtype=torch.uint8)

    def drawn(self, rows: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        return rows

    def take(self, rows: np.ndarray) -> Frames[StoredPixels]:
        return Frames(StoredPixels(self.pixels[rows], torch.from_numpy(rows)))


def program_of(folder: Path, **changes: Any) -> ImageTextProgram:
    values = {**MINIMAL, "encoder": IMAGE, "length": 16, **changes}
    settings = JointPretrainingSettings.model_validate(values)
    torch.manual_seed(0)
    reports = REPORTS[:SAMPLES].assign(impression_sentences=REPORTS["findings_sentences"])
    return image_text_program(settings, reports, load_text_encoder(folder), folder, images=Images())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("text"))


def views_of(program: ImageTextProgram, split: str = "train") -> Views:
    return program.views(split, Batch(ROWS, 3, 5, ALONE))


SIMCLR = {**GLOBAL, "simclr": {"hidden": 6, "output": 5}}


@pytest.mark.parametrize("statistics", ["shared", "separate"])
def test_views_share_batch_statistics_or_not(folder: Path, statistics: str) -> None:
    program = program_of(folder, terms=SIMCLR, **CROPPED, view_statistics=statistics)
    views = views_of(program)
    pixels = [views.pixels(number).current for number in (0, 1)]
    if statistics == "shared":  # the views of an image are neighbours, as ghost batches need it
        both = program.image(Frames(torch.stack(pixels, dim=1).flatten(0, 1))).pooled
        wanted = [both[0::2], both[1::2]]
    else:
        wanted = [program.image(Frames(view)).pooled for view in pixels]
    for number in (0, 1):
        torch.testing.assert_close(views.images[number].pooled, wanted[number])
    assert not torch.allclose(pixels[0], pixels[1])


def test_a_ghost_batch_holds_both_views(folder: Path) -> None:
    for terms, ghosts in ((SIMCLR, {4}), (GLOBAL, {2})):
        program = program_of(folder, terms=terms, ghost_batch=2)
        found = {layer.group for layer in program.image.modules() if hasattr(layer, "group")}
        assert found == ghosts
    apart = program_of(folder, terms=SIMCLR, ghost_batch=2, view_statistics="separate")
    groups = {layer.group for layer in apart.image.modules() if hasattr(layer, "group")}
    head = {layer.group for layer in apart.terms["simclr"].modules() if hasattr(layer, "group")}
    assert (groups, head) == ({2}, {4})


def test_the_first_view_is_the_centre_in_validation_and_the_second_is_not(folder: Path) -> None:
    program = program_of(folder, terms=SIMCLR, **CROPPED)
    views, again = (views_of(program, "validate") for _ in range(2))
    stored = program.images["validate"].take(ROWS)
    centre = stored.each(program.augmentation.centre).current
    assert torch.equal(views.pixels(0).current, centre)
    assert torch.equal(views.pixels(1).current, again.pixels(1).current)
    assert not torch.allclose(views.pixels(1).current, centre)


def test_priors_stand_beside_their_current_images() -> None:
    def view(shift: float) -> Frames[Tensor]:
        return Frames(
            torch.arange(3.0)[:, None] + shift, torch.tensor([[10.0], [12.0]]) + shift,
            torch.tensor([0, 2]),
        )  # fmt: skip

    both = neighbours([view(0.0), view(0.5)])
    assert both.current[:, 0].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]
    assert both.prior is not None and both.rows is not None
    assert torch.equal(both.prior, both.current[both.rows] + 10)
    everywhere = neighbours([view(0.0)._replace(current=torch.zeros(2, 1), rows=None)] * 2)
    assert everywhere.rows is None and everywhere.prior is not None
    assert everywhere.prior.shape == (4, 1)


def test_words_are_masked_only_where_they_are_predicted(folder: Path) -> None:
    mlm = {"forward": "shared", "masking": {"unit": "token", "rate": 0.9}}
    program = program_of(folder, terms={**GLOBAL, "mlm": mlm})
    program.text.eval()
    views = views_of(program)
    intact, other = views.texts["intact"], views.texts["other"]
    assert intact.masked is not None and other.masked is None and len(views.masked) == 1
    for text, same in ((intact, False), (other, True)):
        (states,) = program.text.last_states(text.ids, text.mask, 1)
        assert torch.allclose(text.states[-1], states, atol=1e-5) is same


def trained(program: ImageTextProgram) -> dict[str, Tensor]:
    """Weights and statistics after an epoch."""
    modules = [program.image, program.text]
    optimiser = torch.optim.SGD([p for m in modules for p in m.parameters()], 0.1)
    for step in range(program.batches_per_epoch):
        torch.manual_seed(step)
        optimiser.zero_grad()
        program.losses(program.prepare(0, step), 0, 1).total.backward()
        optimiser.step()
        with torch.no_grad():
            program.after_update()
    return {
        f"{number}.{name}": value
        for number, module in enumerate(modules)
        for name, value in module.state_dict().items()
    }


def nt_xent(first: Tensor, second: Tensor, tau: float) -> Tensor:
    """SimCLR's loss: each of 2N views finds the other one among all but itself."""
    z = [unit(row) for row in (*first, *second)]
    total, half = torch.zeros((), dtype=first.dtype), len(first)
    for i in range(2 * half):
        rest = sum(torch.exp(z[i] @ z[k] / tau) for k in range(2 * half) if k != i)
        total = total - torch.log(torch.exp(z[i] @ z[(i + half) % (2 * half)] / tau) / rest)
    return total / (2 * half)


@pytest.mark.usefixtures("in_float64")
def test_the_objective_is_equation_5(folder: Path) -> None:
    """All of it in one pass, with alpha = beta = gamma = .2 and gradients of both encoders."""
    base = {"global_alignment": {}, "local_alignment": GLORIA}
    terms = {
        "global_alignment": {"weight": 0.4 * 0.5},
        "local_alignment": {**GLORIA, "weight": 0.4 * 0.5},
        "simclr": {"weight": 0.2 / 2, "temperature": 0.5, "hidden": 6, "output": 5},
        "mlm": {"weight": 0.2 / 2, "forward": "shared", "masking": {"unit": "token"}},
        "multi_view": {"weight": 0.2, "base": base},
        "neighbours": {"weight": 0.2, "queue": 12, "start": "random"},
    }
    sizes = {**IMAGE, "dilate": [False, False, False]}  # 2 x 2 patches
    further = {**CROPPED, "text_augmentation": {}, "encoder": sizes}
    program = program_of(folder, terms=terms, **further)
    for module in program.modules.values():
        module.double()
    augmentation = program.augmentation
    program.augmentation = lambda *given: augmentation(*given).double()  # type: ignore[assignment]
    views, found = views_of(program), program.terms
    ours = program.objective(views).total
    v = [views.images[number].projected_global for number in (0, 1)]
    patches = [views.images[number].projected_patches.flatten(1, 2) for number in (0, 1)]
    texts = [views.texts[name] for name in ("intact", "augmented")]
    t, words = [text.projected for text in texts], []
    for text in texts:
        word_BWP, lengths = found["local_alignment"].words(text)
        words.append([rows[:length] for rows, length in zip(word_BWP, lengths, strict=True)])

    def original(image: int, text: int) -> Tensor:
        return info_nce(v[image], t[text]) + gloria(patches[image], words[text])

    neighbours = found["neighbours"].queue[[
        max(range(12), key=lambda k: float(unit(one) @ found["neighbours"].queue[k]))
        for one in t[0].detach()
    ]]  # fmt: skip
    projected = found["simclr"]._projected(views)
    (masked,) = views.masked
    l_tss = sum(
        -row.log_softmax(0)[target]
        for row, target in zip(masked.logits, masked.targets, strict=True)
    )
    l_iss = nt_xent(projected[:, 0], projected[:, 1], 0.5)
    l_mvs = (original(0, 1) + original(1, 0) + original(1, 1)) / 3
    l_nn = (info_nce(v[0], neighbours) + info_nce(v[1], neighbours)) / 2
    alpha = beta = gamma = 0.2
    literal = (
        (1 - alpha - beta - gamma) * original(0, 0)
        + alpha / 2 * (l_tss / len(masked.targets) + l_iss)
        + beta * l_mvs
        + gamma * l_nn
    )
    torch.testing.assert_close(ours, literal, rtol=1e-11, atol=1e-12)
    trained = [p for m in (program.text, program.image) for p in m.parameters() if p.requires_grad]
    gradients = [torch.autograd.grad(one, trained, retain_graph=True) for one in (ours, literal)]
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-10)


@pytest.mark.usefixtures("in_float64")
def test_neighbours_may_be_encoded_again(folder: Path) -> None:
    """The texts that are found, by the encoder as it is, with their words and a gradient."""
    base = {"global_alignment": {}, "local_alignment": GLORIA}
    term = {"queue": 12, "text": "reencode", "base": base}
    sizes = {**IMAGE, "dilate": [False, False, False]}
    further = {**CROPPED, "encoder": sizes, "dropout": 0.0, "attention_dropout": 0.0}
    program = program_of(folder, terms={"neighbours": term}, **further)
    program.text.set_dropout(0.0, 0.0)
    for module in program.modules.values():
        module.double()
    augmentation = program.augmentation
    program.augmentation = lambda *given: augmentation(*given).double()  # type: ignore[assignment]
    found: Any = program.terms["neighbours"].train()
    rows = torch.tensor([2, 3, 6, 8, 9, 12, 14, 15, 17, 18, 20, 21])  # of a report with words
    found.queue.copy_(torch.nn.functional.normalize(torch.randn(12, 8, dtype=torch.float64), dim=1))
    found.rows.copy_(rows)
    found.studies.copy_(torch.from_numpy(found._numbers)[rows])
    views = views_of(program)
    ours = found.loss(views)
    text = views.texts["intact"]
    nearest = [
        int(rows[max(range(12), key=lambda k: float(unit(one) @ found.queue[k]))])
        for one in text.projected.detach()
    ]
    tokens = program.texts["train"].intact(Batch(np.array(nearest), 3, 5, ALONE))
    states = program.text.last_states(tokens["input_ids"], tokens["attention_mask"], 1)
    projected = program.text.project(states[-1], tokens["attention_mask"])
    reader = found.base.terms["local_alignment"]
    words, lengths = reader.words(views.training_texts(np.array(nearest)))
    each = [rows_[:length] for rows_, length in zip(words, lengths, strict=True)]
    literal = (
        sum(
            info_nce(views.images[n].projected_global, projected)
            + gloria(views.images[n].projected_patches.flatten(1, 2), each)
            for n in (0, 1)
        )
        / 2
    )
    torch.testing.assert_close(ours, literal, rtol=1e-10, atol=1e-12)
    weights = [p for p in program.text.bert.parameters() if p.requires_grad]
    assert any(g is not None and g.any() for g in torch.autograd.grad(
        ours, weights, allow_unused=True))  # fmt: skip
    with torch.no_grad():
        found.after_update()
    assert set(ROWS) <= set(found.rows.tolist()) and len(found.rows) == 12
    for wrong in ({"start": "random"}, {"text": "queue"}):
        with pytest.raises(ValidationError, match="expected text: (queue|reencode)"):
            program_of(folder, terms={"neighbours": {**term, **wrong}}, **further)


@pytest.mark.parametrize("terms", [{}, {"neighbours": {"queue": 0}}], ids=["absent", "no queue"])
def test_without_further_terms_the_plain_loss_is_trained(folder: Path, terms: Any) -> None:
    """Eq. 5 with alpha = beta = gamma = 0, bit for bit."""
    plain = trained(program_of(folder, terms=GLOBAL))
    settings = {"terms": {**GLOBAL, **terms}, "text_augmentation": {}, **CROPPED}
    further = trained(program_of(folder, **settings))
    identical(plain, further)
    # With a term the same comparison fails.
    for term in ("neighbours", "multi_view"):
        other = trained(program_of(folder, **{**settings, "terms": {**GLOBAL, term: {}}}))
        assert not all(torch.equal(value, other[name]) for name, value in plain.items())


def test_views_that_no_term_reads_are_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"text_augmentation": {}, **CROPPED}
    program_of(folder, terms=GLOBAL, **settings)
    assert caplog.messages[-2:] == [
        f"settings: key '{key}' is set, but no term reads what it makes"
        for key in ("augmentation.second_crop", "text_augmentation")
    ]
    caplog.clear()
    program_of(folder, terms={**GLOBAL, "multi_view": {}}, **settings)
    assert "no term reads" not in caplog.text
