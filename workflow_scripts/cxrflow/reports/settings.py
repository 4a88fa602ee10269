"""Settings of the training of a small sentence splitter."""

from pydantic import Field

from cxr_files.settings import Seed, Settings


class SentenceSplitterSettings(Settings):
    """Training of the small stanza tokenizer that stands in for the published one."""

    steps: int = Field(200, ge=1, description="optimiser steps")
    batch_size: int = Field(8, ge=1, description="paragraph chunks a step")
    hidden_size: int = Field(32, ge=1, description="width of the tokenizer's LSTM")
    embedding_size: int = Field(16, ge=1, description="width of the character embedding")
    seed: Seed = 1234
