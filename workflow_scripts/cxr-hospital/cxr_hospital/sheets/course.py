"""A patient's course on a page: images side by side, true findings, reported changes.

Writes a picture of the first good frontal image of each study with what is there, and Markdown with
the true findings and the report's sentences about change (docs/patient_course.md).
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cxr_files.atomic import write_png
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxr_hospital.course import Finding
from cxr_hospital.drawing import draw
from cxr_hospital.patient import FIRST_FOLLOWED, Patient, Study, make_patient
from cxr_hospital.progression import direction_of, good_frontals
from cxr_hospital.report import report_of
from cxr_hospital.settings import FollowedSettings, HospitalSettings

_GAP = 8
_LINE, _TEXT = 16, 12  # pixels of a line of a label, and of its letters
PAGE = """# A patient's course

These are the studies of one patient of the synthetic hospital in order of time, from left to right.
Each is shown by its first good frontal image. The table says what is truly there, what has become
of it since the study before, and which sentences of the report speak of change. If the report does
not mention a change, a label read from the report lacks it.

![The studies of one patient, side by side]({picture})

| study | what is there | what the report says of change |
|---|---|---|
{rows}

Made by `cxr-hospital course --patient {patient} --output patient_course.png --page
patient_course.md`; no real person's images or words.
"""


def picture(patient: Patient, studies: Sequence[Study], size: int, pixels: int) -> Image.Image:
    """The first good frontal image of each study in a row, above each its findings in words."""
    font = ImageFont.load_default(_TEXT)
    labels = []
    for study in studies:
        lines = [f"Study {patient.studies.index(study) + 1}"]
        for text in findings(study, "{words}: {change}"):
            lines += wrapped(text, size, font)
        labels.append(lines)
    top = _LINE * max(map(len, labels))
    sheet = Image.new("L", (len(studies) * (size + _GAP) - _GAP, top + size), 255)
    pen = ImageDraw.Draw(sheet)
    for column, (study, lines) in enumerate(zip(studies, labels, strict=True)):
        image = draw(patient, study, good_frontals(study)[0], pixels).image
        tile = Image.fromarray((image * 255).astype(np.uint8))
        tile.thumbnail((size, size))
        left = column * (size + _GAP)
        for number, line in enumerate(lines):
            pen.text((left, number * _LINE), line, 0, font)
        sheet.paste(tile, (left + (size - tile.width) // 2, top + (size - tile.height) // 2))
    return sheet


def wrapped(text: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Return a text in lines of at most ``width`` pixels."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def findings(study: Study, changed: str) -> list[str]:
    """Each finding of a study in words, with its change by the pattern ``changed``."""
    present = [(finding, study.changes.get(finding.key, "")) for finding in study.findings]
    present += [(finding, "resolved") for finding in study.resolved]
    return [
        changed.format(words=_words(finding), change=change) if change else _words(finding)
        for finding, change in present
    ]


def _words(finding: Finding) -> str:
    place = " ".join(word for word in (finding.side, finding.zone) if word not in ("none", ""))
    words = f"{finding.grade} {finding.kind or finding.name}".lower()
    return f"{words}{f' ({place})' if place else ''}"


def row(settings: HospitalSettings, patient: Patient, study: Study) -> str:
    """A line of the table."""
    present = findings(study, "{words}: **{change}**")
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
    sheet = picture(patient, studies, options.tile, options.pixels)
    buffer = io.BytesIO()
    sheet.quantize(64, dither=Image.Dither.NONE).save(buffer, format="PNG", optimize=True)
    write_png(options.output, buffer.getvalue())
    if options.page is not None:
        name = Path("images") / options.output.name
        rows = "\n".join(row(settings, patient, study) for study in studies)
        page = PAGE.format(picture=name, rows=rows, patient=options.patient)
        options.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run(main)
