"""The part of the configuration about named entities of reports."""

from typing import Any

from pydantic import Field

from cxrflow.reports.entities.settings import EntitySettings, EntityTaggerSettings


class Entities(EntitySettings):
    """Entity extraction, and where its stanza models are."""

    stanza_folder: str | None = Field(
        None, description="folder of stanza models; null = train one on the synthetic text"
    )
    training: EntityTaggerSettings = Field(
        EntityTaggerSettings(), description="training of that one"
    )

    def settings(self) -> dict[str, Any]:
        """What the extraction program receives."""
        return self.model_dump(mode="json", exclude={"stanza_folder", "training"})
