"""Find the named entities of a corpus's sentences: BioViL-T's temporal ones among them.

``--corpus`` is a folder that ``cxrflow.reports.corpus`` wrote, ``--stanza`` one of stanza's models.
Writes ``entities.parquet`` (a row an entity: its sentence by study, section and index, first
character and end in that sentence, type, text, and whether TEM counts it) and ``entities.json``,
which counts them. A sentence that occurs many times is read once. The result does not depend on
``--threads``.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cxrflow.files import atomic_path, file_digest, read_object, write_json
from cxrflow.parallel import chunks, ordered_map
from cxrflow.parquet import read_table
from cxrflow.progress import progress
from cxrflow.reports.entities.settings import EntitySettings
from cxrflow.reports.entities.taggers import Entity, StanzaTagger
from cxrflow.reports.entities.temporal import is_temporal_entity

log = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [
        ("study_id", pa.string()),
        ("section", pa.string()),
        ("index", pa.int32()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("type", pa.string()),
        ("text", pa.string()),
        ("temporal", pa.bool_()),
    ]
)
KEYS = ["study_id", "section", "index", "sentence"]

_tagger: StanzaTagger | None = None


def _start(folder: str, settings: EntitySettings) -> None:
    global _tagger
    import torch

    torch.set_num_threads(1)
    _tagger = StanzaTagger(folder, settings.package, settings.tokenizer)


def _work(sentences: Sequence[str]) -> list[list[Entity]]:
    assert _tagger is not None, "the process was not started"
    return _tagger.tag(sentences)


def extract(
    corpus: str | Path,
    stanza: str | Path,
    output: str | Path,
    settings: EntitySettings,
    threads: int = 1,
) -> dict[str, Any]:
    """Write the table ``output`` and a JSON file beside it; gives the latter's content.

    Raises:
        InputError: the corpus or the model folder is not what it should be; nothing is written.
    """
    corpus, output = Path(corpus), Path(output)
    about = read_object(corpus / "corpus.json", ("synthetic", "fingerprint"))
    sentences = read_table(corpus / "sentences.parquet", KEYS)
    different = list(dict.fromkeys(sentences["sentence"]))
    started = time.monotonic()
    parts = ordered_map(
        _work,
        chunks(different, settings.chunk),
        threads if len(different) > settings.chunk else 1,
        partial(_start, str(stanza), settings),
    )
    found = [entities for part in progress(parts, len(different), "sentence") for entities in part]
    table = _table(sentences, dict(zip(different, found, strict=True)))
    with atomic_path(output) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    summary = {
        "corpus": about["fingerprint"],
        "synthetic": about["synthetic"],
        "model": file_digest(Path(stanza, "en", "ner", f"{settings.package}.pt"))[:16],
        "settings": settings.model_dump(mode="json"),
        "sentences": len(sentences),
        "different_sentences": len(different),
        **_counts(table),
    }
    write_json(output.with_suffix(".json"), summary)
    seconds = time.monotonic() - started
    log.info("%d entities in %d sentences, %.1f s", len(table), len(sentences), seconds)
    return summary


def _table(sentences: pd.DataFrame, found: dict[str, list[Entity]]) -> pa.Table:
    rows = [
        (study, section, index, e.start, e.end, e.type, e.text, is_temporal_entity(e.type, e.text))
        for study, section, index, sentence in sentences[KEYS].itertuples(index=False)
        for e in found[sentence]
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _counts(table: pa.Table) -> dict[str, Any]:
    frame = table.to_pandas()
    temporal = frame[frame["temporal"]]
    return {
        "entities": dict(sorted(Counter(frame["type"]).items())),
        "studies": int(frame["study_id"].nunique()),
        "temporal": {
            "entities": len(temporal),
            "studies": int(temporal["study_id"].nunique()),
            "words": dict(sorted(Counter(temporal["text"].str.lower()).items())),
        },
    }
