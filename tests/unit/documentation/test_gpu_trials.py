"""Trials of faster trainings: every trick reaches what it replaces, and the ledger of trials."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_fakes import store_of
from PIL import Image
from speed import gpu_trials, training_cost
from speed import gpu_tricks as tricks
from speed.gpu_trials import BASE, BLOCKS, Block, Clock, Ledger, Trial, main, run_blocks
from speed.kernel_profile import Kernel, kernel_class, profiled, summary
from torch import Tensor, nn

from cxrflow.encoders import attention, cxr_bert
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.images.augment import Augmentation, StoredPixels
from cxrflow.images.settings import AugmentationSettings
from cxrflow.images.store import PixelStore
from cxrflow.objectives import local_alignment
from cxrflow.objectives.local_alignment import Matching
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.terms import local_alignment as term
from cxrflow.training import compilation, engine, step
from cxrflow.training.speed import flop_counter

ROOT = Path(__file__).parents[3]
CPU = torch.device("cpu")
TEXT = TextEncoderSettings(layers=2, width=16, heads=2, feed_forward=32, positions=64, projection=8)
LENGTHS = [40, 7, 33, 64, 6]  # 150 tokens


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What torch.compile is asked for; it traces as ever, and runs what it has traced as it is."""
    plain, options = torch.compile, []

    def trace(function: Callable[..., Any], **given: Any) -> Any:
        options.append(given)
        return plain(function, backend="eager", dynamic=given.get("dynamic"))

    monkeypatch.setattr(torch, "compile", trace)
    torch.compiler.reset()
    yield options
    torch.compiler.reset()


def text_encoder(dropout: float) -> CXRBert:
    torch.manual_seed(0)
    text = CXRBert.build(TEXT, vocabulary_size=60, pad_id=0).train()
    text.set_dropout(dropout, dropout)
    return text


def loss_and_gradients(text: CXRBert) -> list[Tensor]:
    torch.manual_seed(3)
    ids = torch.randint(5, 60, (len(LENGTHS), max(LENGTHS)))
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    text.zero_grad()
    states = text.hidden_states(ids, mask)
    loss = states.float().square().mean() + text.project(states).float().sum()
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in text.parameters() if p.grad is not None)]


def close(found: Sequence[Tensor], wanted: Sequence[Tensor], tolerance: float) -> None:
    assert len(found) == len(wanted) > 1
    for one, other in zip(found, wanted, strict=True):
        largest = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_compiled_text_sees_few_lengths_of_the_same_tokens(asked, dropout, monkeypatch) -> None:
    """Zeros behind the tokens change nothing but which values of dropout are drawn."""
    text = text_encoder(dropout)
    wanted = loss_and_gradients(text)
    seen = set()

    def spied(part: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(layer: Any, *states: Tensor) -> Tensor:
            seen.update(map(len, states))
            return part(layer, *states)

        return call

    with tricks.one_length() as calls, monkeypatch.context() as inner:
        pads = cxr_bert._any_length
        inner.setattr(cxr_bert, "_any_length", lambda part: pads(spied(part)))
        compilation.compile_modules({"text": text}, CPU)
    assert calls.number == 2
    found = loss_and_gradients(text)
    assert seen == {160}
    if dropout:
        with pytest.raises(AssertionError):
            close(found, wanted, 2e-5)
    else:
        close(found, wanted, 2e-5)


def test_the_compiler_gets_its_options_and_loses_them(asked) -> None:
    for trick, name, value in (
        (tricks.own_random, "fallback_random", False),
        (tricks.cuda_graphs, "triton.cudagraphs", True),
    ):
        asked.clear()
        with trick() as calls:
            engine.compile_modules({"text": text_encoder(0.1)}, CPU)
        assert calls.number == 1 and len(asked) == 3  # a trial of the compiler, two parts
        assert all(given["options"][name] is value for given in asked), name
        assert all("fallback_random" in given["options"] for given in asked)
        assert compilation.OPTIONS["options"] == {"fallback_random": True}


def test_both_options_of_the_compiler_hold_together(asked) -> None:
    with tricks.own_random(), tricks.cuda_graphs():
        engine.compile_modules({"text": text_encoder(0.1)}, CPU)
    assert asked[-1]["options"] == {"fallback_random": False, "triton.cudagraphs": True}


def test_torch_knows_the_options_of_the_compiler() -> None:
    with tricks.own_random(), tricks.cuda_graphs():
        torch.compile(lambda x: x, **compilation.OPTIONS)
        with pytest.raises(RuntimeError, match="Unexpected optimization option"):
            torch.compile(lambda x: x, options={"triton.no_such_option": True})


def test_parts_are_compiled_for_any_number_before_the_first_step(asked) -> None:
    text = text_encoder(0.0)
    wanted = loss_and_gradients(text)
    with tricks.compiled_for_any_number() as calls:
        engine.DataClock([text]).close()
        assert calls.number == 1 and [given["dynamic"] for given in asked] == [True, True]
        with engine.flop_counter(compiled=False) as counter:
            close(loss_and_gradients(text), wanted, 1e-6)
        with flop_counter(compiled=True) as counted:
            loss_and_gradients(text)
    close(loss_and_gradients(text), wanted, 2e-5)
    assert counter.get_total_flops() == counted.get_total_flops() > 0


def test_norms_keep_bf16_under_autocast_alone() -> None:
    text, seen = text_encoder(0.0), set()
    for layer in text.bert.encoder.layer:
        layer.output.LayerNorm.register_forward_hook(lambda *given: seen.add(given[2].dtype))
    plain = loss_and_gradients(text)
    with torch.autocast("cpu", torch.bfloat16):
        wanted = loss_and_gradients(text)
    assert seen == {torch.float32}
    with tricks.norms_in_bf16() as calls:
        assert all(map(torch.equal, loss_and_gradients(text), plain))
        seen.clear()
        calls.number = 0
        with torch.autocast("cpu", torch.bfloat16):
            found = loss_and_gradients(text)
    assert seen == {torch.bfloat16} and calls.number > 4
    close(found, wanted, 3e-2)
    assert not torch.equal(found[0], wanted[0])


def test_cudnn_comes_first_and_is_alone_for_packed_documents(monkeypatch) -> None:
    plain, allowed = attention.scaled_dot_product_attention, []
    cuda = torch.backends.cuda

    def spied(q: Tensor, *rest: Any) -> Tensor:
        allowed.append((q.is_nested, cuda.cudnn_sdp_enabled(), cuda.flash_sdp_enabled()))
        return q if q.is_nested else plain(q, *rest)

    monkeypatch.setattr(attention, "scaled_dot_product_attention", spied)
    text = text_encoder(0.0)
    wanted = loss_and_gradients(text)
    before = cuda.cudnn_sdp_enabled()
    allowed.clear()
    with tricks.cudnn_attention() as calls:
        assert all(map(torch.equal, loss_and_gradients(text), wanted))
        nested = torch.nested.nested_tensor_from_jagged(
            torch.ones(5, 2, 4), torch.tensor([0, 2, 5])
        )
        attention.attention(nested, nested, nested)
    assert set(allowed[:-1]) == {(False, True, True)} and allowed[-1] == (True, True, False)
    assert calls.number == len(allowed) and cuda.cudnn_sdp_enabled() == before


def test_products_of_float32_are_in_tf32_inside_alone() -> None:
    before = torch.get_float32_matmul_precision()
    with tricks.tf32_products() as calls:
        assert torch.get_float32_matmul_precision() == "high" and calls.number
    assert torch.get_float32_matmul_precision() == before


def alignment(matching: Matching) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    regions, words = (
        torch.randn(4, count, 8, generator=generator).requires_grad_() for count in (9, 6)
    )
    similarity = term.local_similarity(regions, words, [6, 2, 5, 4], matching)
    loss = local_alignment.symmetric_cross_entropy(10 * similarity)
    return [loss.detach(), *torch.autograd.grad(loss, (regions, words))]


@pytest.mark.parametrize(
    ("trick", "tolerance"),
    [
        (tricks.alignment_in_tf32, 1e-6),
        (tricks.alignment_in_bf16, 5e-2),
        (tricks.alignment_compiled, 2e-5),
    ],
)
@pytest.mark.parametrize(
    "matching", [Matching(), Matching(word_softmax=False, match="dot", aggregation="mean")]
)
def test_local_alignment_is_the_same_loss(asked, monkeypatch, matching, trick, tolerance) -> None:
    wanted, precisions, scaled = alignment(matching), [], local_alignment._scaled

    def spied(*given: Any) -> Tensor:
        precisions.append((torch.get_float32_matmul_precision(), given[0].dtype))
        return scaled(*given)

    monkeypatch.setattr(local_alignment, "_scaled", spied)
    with trick() as calls:
        close(alignment(matching), wanted, tolerance)
        assert calls.number
        # Nothing is kept, so that backward computes it again.
        if trick is tricks.alignment_in_tf32:
            monkeypatch.setattr(local_alignment, "SMALL", (1, 0))
            precisions.clear()
            close(alignment(matching), wanted, tolerance)
            assert precisions == [("high", torch.float32)] * 8  # 4 texts, forward and backward
    assert torch.get_float32_matmul_precision() == "highest"
    if trick is tricks.alignment_in_bf16:
        assert {kind for _, kind in precisions} == {torch.bfloat16}
    if trick is tricks.alignment_compiled:
        assert precisions == [] and asked[-1]["dynamic"] is True


def test_a_compiled_augmentation_gives_the_same_views(asked) -> None:
    chosen = AugmentationSettings(
        noise=0.05, noise_probability=1.0, occlusion_scale=(0.1, 0.2), occlusion_probability=1.0,
        elastic_probability=1.0,
    )  # fmt: skip
    pixels = torch.arange(3 * 32 * 32).remainder(251).view(3, 32, 32).to(torch.uint8)
    stored = StoredPixels(pixels, torch.arange(3))
    wanted = Augmentation(chosen)(stored, 1, 2)
    with tricks.compiled_augmentation() as calls:
        found = Augmentation(chosen)(stored, 1, 2)
        assert len(asked) == 4
        assert calls.number == 3 + 3 + 1 + 1  # noise and warp image by image on a CPU
        with flop_counter(compiled=False):  # as it is, where FLOPs are counted
            assert torch.equal(Augmentation(chosen)(stored, 1, 2), wanted)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def test_without_the_thread_batches_are_those_of_the_thread() -> None:
    with tricks.no_thread() as calls:
        feed = step.Feed(lambda number: number * number, 3, ahead=True)
    assert feed._thread is None and calls.number == 1
    assert [feed.take(number) for number in range(3)] == [0, 1, 4]


def test_images_read_by_batches_are_those_that_stay(tmp_path: Path) -> None:
    names = [f"id{number}" for number in range(5)]
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 20), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    store = PixelStore(store_of(tmp_path, names, "shorter16", root="."))
    resident = SplitImages(store, store.index, CPU)
    with tricks.images_read_by_batches() as calls:
        read = SplitImages(store, store.index, CPU)
    assert calls.number == 1 and read.pixels is None and resident.pixels is not None
    batch = np.array([3, 1])
    assert torch.equal(read.take(batch).current.pixels, resident.take(batch).current.pixels)


def test_every_trick_of_a_trial_is_tried_above() -> None:
    tried = {
        *(tricks.one_length, tricks.own_random, tricks.cuda_graphs, tricks.norms_in_bf16),
        *(tricks.cudnn_attention, tricks.tf32_products, tricks.alignment_in_tf32),
        *(tricks.alignment_in_bf16, tricks.alignment_compiled, tricks.compiled_augmentation),
        *(tricks.no_thread, tricks.images_read_by_batches, tricks.compiled_for_any_number),
    }
    assert {trick for block in BLOCKS for trial in block.trials for trick in trial.tricks} == tried


def test_the_list_of_trials_is_sound() -> None:
    assert sum(block.minutes for block in BLOCKS) <= 40
    variants: dict[tuple[str, str], Trial] = {}
    for trial in (trial for block in BLOCKS for trial in block.trials):
        assert variants.setdefault((trial.model, trial.name), trial)[2:] == trial[2:], trial
        assert trial.model in training_cost.MODELS
    for block in BLOCKS:  # a variant comes after what it is compared with
        for number, trial in enumerate(block.trials):
            assert (trial.model, BASE) in {(t.model, t.name) for t in block.trials[: number + 1]}


# --- the profile ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void pytorch_flash::flash_bwd_kernel<cutlass::bfloat16_t>", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", "attention"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", "products"),
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16_nhwckrsc_nhwc_tilesize128", "products"),
        ("void cublasLt::splitKreduce_kernel<32, 16>", "products"),
        ("void at::native::vectorized_layer_norm_kernel<float, float>", "norms"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NHWC<__nv_bfloat16>", "norms"),
        ("triton_per_fused_native_layer_norm_add__to_copy_3", "norms"),
        ("void at::native::fused_dropout_kernel_vec<float>", "dropout"),
        ("triton_poi_fused__to_copy_gelu_1", "elementwise"),
        ("void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>", "elementwise"),
        ("void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>", "copies"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", "updates"),
        ("void at_cuda_detail::DeviceRadixSortOnesweepKernel", "other"),
    ],
)
def test_kernels_have_a_class(name: str, kind: str) -> None:
    assert kernel_class(name) == kind


def test_time_in_which_kernels_overlap_counts_once() -> None:
    kernels = [
        Kernel("gemm", 0, 4000),
        Kernel("Memcpy DtoH", 2000, 5000),  # beside the first
        Kernel("layer_norm", 7000, 8000),
        Kernel("gemm", 9000, 10000),
    ]
    found = summary(kernels[::-1], steps=2)
    assert found["busy_share"] == 0.7 and found["launches"] == 2  # (3 kernels) / 2, to even
    times = found["milliseconds"]
    assert (times["products"], times["copies"], times["norms"]) == (2.5, 1.5, 0.5)
    assert next(iter(found["largest"].items())) == ("gemm", 2.5)
    with pytest.raises(ValueError, match="no kernel"):
        summary([], 1)


@pytest.mark.parametrize("steps", [2, 9])
def test_the_steps_after_the_first_are_profiled(steps: int) -> None:
    layer = nn.Linear(64, 64)
    optimiser = torch.optim.SGD(layer.parameters(), 0.1)
    with profiled(after=3, steps=steps) as profile:
        for number in range(6):
            if number in (0, 5):  # neither is profiled
                torch.ones(9).cumsum(0)
            layer(torch.ones(8, 64)).sum().backward()
            optimiser.step()
            optimiser.zero_grad()
    if steps == 9:  # the training ended before
        assert profile.summary is None
        return
    assert profile.summary is not None and profile.summary["milliseconds"]["products"] > 0
    assert not any("cumsum" in name for name in profile.summary["largest"])


# --- blocks ---------------------------------------------------------------------------------------


class Scripted:
    """Trials that take no time."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def code(self, trial: Trial) -> str:
        return f"{trial.model} {trial.name}"

    def run(self, trial: Trial) -> dict[str, Any]:
        self.ran.append(trial.name)
        if trial.name == "fails":
            raise RuntimeError("\nno kernel | image\nand more")
        if trial.name == "ends the process":
            raise KeyboardInterrupt
        seconds = 0.5 if trial.name == BASE else 0.25
        return {
            **{"seconds_per_step": seconds, "samples_per_second": 8 / seconds, "mfu": 0.1},
            **{"peak_memory_gb": 1.5, "losses": [2.0, 1.0 + 0.01 * (trial.name != BASE)]},
        }


def named(number: int, *names: str, minutes: float = 1.0) -> Block:
    return Block(number, f"block {number}", minutes, [Trial(name, "a/b") for name in names])


def test_a_trial_that_fails_stops_no_other(tmp_path: Path, capsys) -> None:
    bench, ledger = Scripted(), Ledger(tmp_path)
    blocks = [named(1, BASE, "fails", "faster"), named(2, BASE, "other")]
    assert run_blocks(bench, blocks, ledger, Clock(9)) == ([], True)
    assert bench.ran == [BASE, "fails", "faster", "other"]  # the base stands in both blocks
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "1 a/b, fails: FAILED RuntimeError: no kernel | image"
    assert "0.2500 s a step, 2.00 times as fast" in told[2]
    assert "MFU 20.0%" in told[2] and told[2].endswith("losses differ by 1e-02")
    table = ledger.table.read_text()
    assert "| 1 | a/b | fails | RuntimeError: no kernel / image |" in table
    assert "| 1 | a/b | faster | 0.2500 | 2.00 | 32.0 | 20.0% | 1.5 | 1e-02 | rounding |" in table


def test_what_stands_in_the_file_is_not_run_again(tmp_path: Path) -> None:
    blocks = [named(1, BASE, "fails"), named(2, "new")]
    run_blocks(Scripted(), blocks[:1], Ledger(tmp_path), Clock(9))
    with (tmp_path / "gpu_trials.jsonl").open("a") as file:
        file.write('{"model": "a/b", "tri')  # the process was killed there
    bench = Scripted()
    ledger = Ledger(tmp_path)
    run_blocks(bench, blocks, ledger, Clock(9))
    assert bench.ran == ["new"]
    assert ledger.rows == [json.loads(line) for line in ledger.path.read_text().splitlines()]


def test_a_trial_that_ends_the_process_is_tried_twice(tmp_path: Path) -> None:
    bench = Scripted()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_blocks(bench, [named(1, "ends the process")], Ledger(tmp_path), Clock(9))
    ledger = Ledger(tmp_path)
    run_blocks(bench, [named(1, "ends the process", BASE)], ledger, Clock(9))
    assert bench.ran == ["ends the process"] * 2 + [BASE]
    assert "| ends the process | did not end |" in ledger.table.read_text()


def test_a_block_that_does_not_fit_is_left(tmp_path: Path, monkeypatch) -> None:
    bench, ledger = Scripted(), Ledger(tmp_path)
    blocks = [named(1, BASE), named(2, "a", "b", minutes=6), named(3, "short", minutes=0.1)]
    left, _ = run_blocks(bench, blocks, ledger, Clock(5))
    assert left == ["2 block 2 (6.0 min)", "3 block 3 (0.1 min)"] and bench.ran == [BASE]
    # Half of it is done, and so it fits.
    ledger.add({**dict.fromkeys(("block", "changes"), ""), "model": "a/b", "trial": "a",
                "code": "a/b a", "failed": "no"})  # fmt: skip
    assert run_blocks(bench, blocks, ledger, Clock(5))[0] == []
    assert bench.ran == [BASE, "b", "short"]


def test_time_that_is_over_ends_a_block(tmp_path: Path) -> None:
    bench, clock = Scripted(), Clock(5)
    run = bench.run

    def slow(trial: Trial) -> dict[str, Any]:
        clock.until -= 400
        return run(trial)

    bench.run = slow  # type: ignore[method-assign]
    left, _ = run_blocks(bench, [named(1, BASE, "a", "b"), named(2, "c")], Ledger(tmp_path), clock)
    assert bench.ran == [BASE]
    assert left == ["1 block 1 (its last 2 trials)", "2 block 2 (1.0 min)"]


def test_a_gpu_that_is_lost_ends_the_process_for_another(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_trials, "usable", lambda: False)
    bench = Scripted()
    assert run_blocks(bench, [named(1, "fails", "a")], Ledger(tmp_path), Clock(5)) == ([], False)
    assert bench.ran == ["fails"]


PHASE2 = gpu_trials.PHASE2


def test_trainings_are_tried_and_what_is_not_reached_is_said(tmp_path, monkeypatch, capsys) -> None:
    sizes = {"encoder": TEXT.model_dump(mode="json"), "length": TEXT.positions}
    (tmp_path / "small.yaml").write_text(json.dumps({"models": {PHASE2: sizes}}))
    monkeypatch.setattr(training_cost, "DOCUMENTS", 300)
    tried = [
        Trial(BASE, PHASE2),
        Trial("base again", PHASE2),
        Trial("no thread", PHASE2, {}, (tricks.no_thread,)),
        Trial("read by batches", PHASE2, {}, (tricks.images_read_by_batches,)),
        Trial("larger", PHASE2, {"batch_size": 9}),
        Trial("profile", PHASE2, profiled=True, warm_up=2),
    ]
    monkeypatch.setattr(gpu_trials, "BLOCKS", (Block(1, "text", 5, tried),))
    words = ["--configfile", str(ROOT / "config.yaml"), str(tmp_path / "small.yaml")]
    words += ["--images", "80", "--processes", "1", "--steps", "2", "--output", str(tmp_path)]
    words += ["--set", '{"batch_size": 8}']
    main(words)
    rows = Ledger(tmp_path).latest()
    base, again, alone, unreached, larger, profile = (rows[PHASE2, t.name] for t in tried)
    assert len(base["losses"]) == gpu_trials.FIRST
    assert base["losses"] == again["losses"] == alone["losses"] != larger["losses"]
    assert base["batch"] == 8 and larger["seconds_per_step"] > 0
    assert unreached["failed"].startswith("RuntimeError: images_read_by_batches: this training")
    assert profile["profile"]["milliseconds"]["products"] > 0
    assert profile["profile"]["busy_share"] <= 1
    table = (tmp_path / "gpu_trials.md").read_text()
    assert f"| 1 | {PHASE2} | no thread |" in table and f"\n| {PHASE2} | " in table
    capsys.readouterr()
    monkeypatch.setattr(gpu_trials, "cost", None)  # nothing is trained a second time
    main(words)
    assert capsys.readouterr().out.startswith("left for lack of time: nothing")
    main([*words, "--minutes", "0", "--steps", "3"])
    assert "1 text (5.0 min)" in capsys.readouterr().out


def test_models_start_from_what_has_their_shapes(tmp_path, demo, monkeypatch) -> None:
    made: list[tuple[str, int, int]] = []

    def train(config, name, invented, folder, steps, warm_up, changes, done) -> dict[str, Any]:
        made.append((name, steps, changes["batch_size"]))
        (folder / name).mkdir(parents=True)
        assert folder == done
        return {}

    monkeypatch.setattr(gpu_trials, "cost", train)
    invented = training_cost.Invented(tmp_path / "invented", 80, 1)
    bench = gpu_trials.Bench(demo, invented, tmp_path, 2, {})
    bench.start("biovil/biovil")
    assert made == [(PHASE2, 1, 16), ("biovil/simclr", 1, 16)]
    bench.start("biovil/biovil")
    assert len(made) == 2


def test_a_store_that_was_only_begun_is_made(tmp_path: Path) -> None:
    invented = training_cost.Invented(tmp_path, 3, 1)
    invented._write_images()
    (tmp_path / "pixels" / "shorter32").mkdir(parents=True)  # the process ended there
    assert len(PixelStore(invented.store("shorter32"))) == 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_on_a_gpu_the_small_trials_of_graphs_and_profiles_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(training_cost, "DOCUMENTS", 300)
    few = {"training": {"compile": True}, "warm_up": 16}
    tried = [
        Trial(BASE, PHASE2),
        Trial("profile", PHASE2, profiled=True),
        Trial("graphs", PHASE2, tricks=(tricks.one_length, tricks.cuda_graphs), **few),
        Trial("random", PHASE2, tricks=(tricks.own_random, tricks.norms_in_bf16), **few),
    ]
    monkeypatch.setattr(gpu_trials, "BLOCKS", (Block(1, "text", 5, tried),))
    words = ["--configfile", str(ROOT / "config.yaml"), "--images", "80", "--output", str(tmp_path)]
    main(words)
    rows = Ledger(tmp_path).latest()
    assert not [row["failed"] for row in rows.values() if "failed" in row]
    assert rows[PHASE2, "profile"]["profile"]["launches"] > 10
    for name in ("graphs", "random"):
        there = gpu_trials.compared(rows[PHASE2, name], rows[PHASE2, BASE])
        assert there["difference"] < 0.05
