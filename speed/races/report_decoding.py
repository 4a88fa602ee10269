"""Writing reports: ``encoders.decoding`` against transformers' ``generate`` on the same weights.

Transformers counts BERT's positions from the padding on, so that it can write in batches only after
prior reports of one length, which these have; after others, one at a time. Weights are drawn wide,
so that reports differ and end at different places.
"""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from transformers import BertLMHeadModel, DynamicCache, EncoderDecoderCache

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.decoding import Search, decode
from cxrflow.encoders.report_decoder import ReportDecoder, save_decoder
from cxrflow.encoders.settings import ReportDecoderSettings, TextEncoderSettings
from speed.race import Race

PIECES, PATCHES, PATCH_WIDTH = 30_522, 196, 128  # BioViL-T: 14 x 14 projected patches
SIZES = TextEncoderSettings(layers=6, width=384, heads=6, feed_forward=1536)
STUDIES, PROMPT, LONGEST = 16, 60, 48

Reports = list[list[int]]


def races(
    sizes: TextEncoderSettings = SIZES, studies: int = STUDIES, longest: int = LONGEST
) -> list[Race]:
    """Greedy, and four beams."""
    torch.manual_seed(0)
    settings = ReportDecoderSettings(length=PROMPT + longest, report_length=longest)
    text = CXRBert.build(sizes, PIECES, 0)
    ours = ReportDecoder.start(text, "pieces", PATCH_WIDTH, settings).eval()
    for parameter in ours.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.1)
    with TemporaryDirectory(prefix="cxrflow-race-") as folder:
        save_decoder(ours, Path(folder))
        theirs = BertLMHeadModel.from_pretrained(Path(folder, "decoder")).eval()
    prompts = torch.randint(5, PIECES, (studies, PROMPT))
    patches = torch.randn(studies, PATCHES, PATCH_WIDTH)
    endless = decode(ours, prompts.tolist(), patches, Search(longest, -1))
    seen = Counter(token for row in endless for token in set(row))
    end = min(seen, key=lambda token: abs(seen[token] - studies / 2))  # half of the reports end
    return [_race(ours, theirs, prompts, patches, Search(longest, end, beams)) for beams in (1, 4)]


def _race(
    ours: ReportDecoder, theirs: BertLMHeadModel, prompts: Tensor, patches: Tensor, search: Search
) -> Race:
    @torch.inference_mode()
    def generated(rows: slice) -> Reports:
        found = theirs.generate(
            prompts[rows],
            attention_mask=torch.ones_like(prompts[rows]),
            encoder_hidden_states=ours.cross.patches(patches[rows]),
            past_key_values=EncoderDecoderCache(DynamicCache(), DynamicCache()),
            max_new_tokens=search.longest,
            num_beams=search.beams,
            do_sample=False,
            eos_token_id=search.end,
            pad_token_id=0,
        )
        ids = found[:, prompts.shape[1] :].tolist()
        return [row[: row.index(search.end)] if search.end in row else row for row in ids]

    def one_at_a_time() -> Reports:
        return [generated(slice(row, row + 1))[0] for row in range(len(prompts))]

    def same(mine: Reports, other: Reports) -> None:
        # Products of another batch size round differently, which may turn a near tie of two words.
        differing = sum(one != two for one, two in zip(mine, other, strict=True))
        assert differing <= len(mine) // 8, f"{differing} of {len(mine)} reports differ"

    written = decode(ours, prompts.tolist(), patches, search)
    kind = "greedy" if search.beams == 1 else f"{search.beams} beams"
    return Race(
        name=f"report_decoding_{kind.replace(' ', '_')}",
        what=f"{len(prompts)} reports of at most {search.longest} tokens, {kind}",
        ours=lambda: decode(ours, prompts.tolist(), patches, search),
        peers={
            "transformers, one at a time": one_at_a_time,
            "transformers, a batch": lambda: generated(slice(None)),
        },
        check=same,
        gates={"transformers, one at a time": 5.0},
        amount=sum(map(len, written)),
        unit="token",
        notes=[f"prior reports of {prompts.shape[1]} tokens, {patches.shape[1]} patches"],
        most_rounds=3,
    )
