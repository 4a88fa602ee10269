"""Models that were run elsewhere: the files of what they said, and what they have learnt from."""

from pydantic import Field, field_validator

from cxr_files.settings import Settings
from cxrflow.data.layouts import LAYOUTS
from cxrflow.kinds import is_outside
from cxrflow.names import Name


class ExternalModel(Settings):
    """A model that is scored from files and neither trained nor run here."""

    trained_on: str = Field(min_length=1, description="in words, printed below its tables")
    people: list[str] = Field(
        description="layouts of data sets whose patients it has learnt from; an empty list: none"
    )
    files: dict[Name, str] = Field(
        min_length=1, description="by task, the CSV or Parquet file that is scored in it"
    )
    least_share: float = Field(
        1.0, gt=0, le=1, description="of a task's rows that a file must hold, of each part of them"
    )

    @field_validator("people")
    @classmethod
    def _layouts_exist(cls, names: list[str]) -> list[str]:
        for name in names:
            if not is_outside(name) and name not in LAYOUTS:
                raise ValueError(f"'{name}' is no layout; expected some of {', '.join(LAYOUTS)}")
        return names
