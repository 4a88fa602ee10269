"""The page of a patient's course: what stands in docs is what the program writes."""

from pathlib import Path

import pytest
from PIL import Image

from cxrflow.errors import InputError
from cxrflow.phantom.sheets.course import main

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_in_docs_is_as_the_program_writes_it(tmp_path: Path) -> None:
    main(["--output", str(tmp_path / "patient_course.png"), "--page", str(tmp_path / "page.md")])
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert written == (DOCS / "patient_course.md").read_text(encoding="utf-8")
    sizes = {Image.open(f / "patient_course.png").size for f in (tmp_path, DOCS / "images")}
    assert len(sizes) == 1
    assert "**resolved**" in written and "**new**" in written and "**improved**" in written


def test_another_hospital_and_a_patient_without_a_good_image(tmp_path: Path) -> None:
    settings = '{"seed": 7, "lateral_only_share": 1.0}'
    with pytest.raises(InputError, match="has no good frontal image; try another"):
        main(["--settings", settings, "--output", str(tmp_path / "x.png")])
