"""Draft the report of one radiograph, optionally with an earlier one. Not for clinical use.

    cxrflow draft --model results/models/biovil_t/report_biovil_t/seed0 --image x.dcm \\
        --prior earlier.dcm --prior-report earlier.txt

This is research: any word of the draft may be wrong. In Python,
``cxrflow.load(folder).generate_report`` gives the text itself.
"""

import logging
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.generation.settings import OneReportSettings

MODEL = Path("results/models/biovil_t/report_biovil_t/seed0")
MARK = "DRAFT BY A MACHINE, FOR RESEARCH ONLY. NOT FOR CLINICAL USE."

log = logging.getLogger("cxrflow")


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, draft the report and write it."""
    arguments = parser(__doc__)
    arguments.add_path("--model", "model folder", MODEL)
    arguments.add_path("--image", "radiograph (DICOM, PNG or JPEG)")
    arguments.add_argument("--prior", type=Path, help="an earlier radiograph of the patient")
    arguments.add_argument(
        "--prior-report",
        type=Path,
        help="text file: that radiograph's report (with headings: the model's sections)",
    )
    arguments.add_argument(
        "--output", type=Path, help="text file to write (default: print the draft)"
    )
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, OneReportSettings)
    if options.output is not None and options.output.suffix != ".txt":
        raise InputError(f"--output is {options.output}, expected a name that ends in .txt")
    from cxr_files.atomic import atomic_path, read_text

    exists = options.output is not None and options.output.exists()
    if exists and not read_text(options.output).startswith(MARK):  # an earlier draft is replaced
        raise InputError(
            f"{options.output}: is no earlier draft; name another file, or delete this one yourself"
        )
    written = f"{MARK}\n\n{draft(options, settings)}\n\n{MARK}\n"
    if options.output is None:
        print(written, end="")
        return
    with atomic_path(options.output) as temporary:
        temporary.write_text(written, encoding="utf-8")


def draft(options: Namespace, settings: OneReportSettings) -> str:
    """Return the report that the model writes of the image."""
    import cxrflow
    from cxrflow.training.precision import choose_device

    model = cxrflow.load(options.model, choose_device(settings.device))
    if model.limits:
        log.warning(model.limits)
    reads = None if model.decoder is None else model.decoder.settings
    image, report = (getattr(reads, name, False) for name in ("prior_image", "prior_report"))
    for name, uses in (("prior", image and model.takes_prior), ("prior_report", report)):
        if reads is not None and getattr(options, name) is not None and not uses:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is given, but {options.model} has not learnt to read it")
    earlier = None
    if options.prior_report is not None and model.decoder is not None:
        earlier = read_report(options.prior_report, model.decoder.settings.sections)
    (text,) = model.generate_report(
        options.image, options.prior, [earlier], settings.beams, settings.length_penalty
    )
    return text


def read_report(path: Path, sections: Sequence[str]) -> str:
    """Return these sections of a report, or its whole text if it has none of them."""
    from cxr_files.atomic import read_text
    from cxr_labels.characters import normalised
    from cxr_labels.sections import parse_report
    from cxr_labels.settings import SectionSettings

    text = normalised(read_text(path))
    sections_read = parse_report(text, SectionSettings(headings="any"), None).sections
    chosen = [sections_read[name] for name in sections if sections_read.get(name)]
    return " ".join(" ".join(chosen or [text]).split())


if __name__ == "__main__":
    run(main)
