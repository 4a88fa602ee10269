"""Settings of entity taggers, and of the trainings of a small one and of a sentence splitter."""

from pydantic import Field

from cxr_files.settings import Seed, Settings


class SentenceSplitterSettings(Settings):
    """Training of the small stanza tokenizer that stands in for the published one."""

    steps: int = Field(200, ge=1, description="optimiser steps")
    batch_size: int = Field(8, ge=1, description="paragraph chunks a step")
    hidden_size: int = Field(32, ge=1, description="width of the tokenizer's LSTM")
    embedding_size: int = Field(16, ge=1, description="width of the character embedding")
    seed: Seed = 1234


class EntitySettings(Settings):
    """Which models of a stanza folder find the entities of texts."""

    package: str = Field("radiology", description="model of en/ner that names the entities")
    tokenizer: str = Field("mimic", description="model of en/tokenize that cuts text into words")


class EntityTaggerSettings(Settings):
    """Training of the small stanza tagger that stands in for the published one."""

    steps: int = Field(200, ge=1, description="optimiser steps")
    batch_size: int = Field(32, ge=1, description="sentences a step")
    hidden_size: int = Field(64, ge=1, description="width of the tagger's LSTM")
    character_size: int = Field(32, ge=1, description="width of the characters' embedding and LSTM")
    word_size: int = Field(32, ge=1, description="width of the word vectors, random at the start")
    learning_rate: float = Field(0.006, gt=0, description="of Adam")
    dropout: float = Field(0.3, ge=0, lt=1)
    seed: Seed = 1234
