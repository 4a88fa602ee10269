"""A patient's course on a page: images side by side, true findings, reported changes.

Writes a picture of the first good frontal image of each study, and Markdown with the true findings
and the report's sentences about change (docs/patient_course.md).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from cxrflow.errors import InputError
from cxrflow.files.atomic import atomic_path
from cxrflow.phantom.course import Finding
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.patient import FIRST_FOLLOWED, Patient, Study, make_patient
from cxrflow.phantom.progression import direction_of, good_frontals
from cxrflow.phantom.report import report_of
from cxrflow.phantom.settings import FollowedSettings, HospitalSettings
from cxrflow.programs.program import parser, run
from cxrflow.settings import read_settings

_GAP = 4
PAGE = """# A patient's course

These are the studies of one patient of the synthetic hospital in order of time, from left to right.
Each is shown by its first good frontal image. The table says what is truly there, what has become
of it since the study before, and which sentences of the report speak of change. If the report does
not mention a change, a label read from the report lacks it.

![The studies of one patient, side by side]({picture})

| study | what is there | what the report says of change |
|---|---|---|
{rows}

Made by `cxrflow draw_course --patient {patient} --output patient_course.png --page
patient_course.md`; no real person's images or words.
"""


def picture(patient: Patient, studies: Sequence[Study], size: int, pixels: int) -> Image.Image:
    """The first good frontal image of each study in a row."""
    sheet = Image.new("L", (len(studies) * (size + _GAP) - _GAP, size), 255)
    for column, study in enumerate(studies):
        image = draw(patient, study, good_frontals(study)[0], pixels).image
        tile = Image.fromarray((image * 255).astype(np.uint8))
        tile.thumbnail((size, size))
        x = column * (size + _GAP) + (size - tile.width) // 2
        sheet.paste(tile, (x, (size - tile.height) // 2))
    return sheet


def _words(finding: Finding, change: str) -> str:
    place = " ".join(word for word in (finding.side, finding.zone) if word not in ("none", ""))
    words = f"{finding.grade} {finding.kind or finding.name}".lower()
    return f"{words}{f' ({place})' if place else ''}{f': **{change}**' if change else ''}"


def row(settings: HospitalSettings, patient: Patient, study: Study) -> str:
    """A line of the table."""
    present = [_words(finding, study.changes.get(finding.key, "")) for finding in study.findings]
    present += [_words(finding, "resolved") for finding in study.resolved]
    report = report_of(settings, patient, study)
    sentences = dict.fromkeys((*report.findings, *report.impression, *report.last_paragraph))
    change = [f"“{sentence}”" for sentence in sentences if direction_of(sentence)]
    number = patient.studies.index(study) + 1
    cells = (str(number), "; ".join(present) or "nothing", " ".join(change) or "nothing")
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the picture, and the page if it is asked for."""
    arguments = parser(__doc__)
    arguments.add_argument("--patient", type=int, default=222, help="number of a followed patient")
    arguments.add_argument("--output", type=Path, required=True, help="PNG file to write")
    arguments.add_argument("--page", type=Path, help="Markdown file to write beside it")
    arguments.add_argument("--tile", type=int, default=260, help="pixels of an image on the sheet")
    arguments.add_argument("--pixels", type=int, default=320, help="pixels each image is drawn at")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, HospitalSettings)
    if settings.followed is None:
        settings = settings.model_copy(update={"followed": FollowedSettings()})
    patient = make_patient(settings, FIRST_FOLLOWED + options.patient)
    studies = [study for study in patient.studies if good_frontals(study)]
    if not studies:
        raise InputError(f"--patient {options.patient}: has no good frontal image; try another")
    with atomic_path(options.output) as temporary:
        sheet = picture(patient, studies, options.tile, options.pixels)
        sheet.quantize(64, dither=Image.Dither.NONE).save(temporary, format="PNG", optimize=True)
    if options.page is not None:
        name = Path("images") / options.output.name
        rows = "\n".join(row(settings, patient, study) for study in studies)
        page = PAGE.format(picture=name, rows=rows, patient=options.patient)
        options.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run(main)
