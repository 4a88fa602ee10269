"""Let ``cxrflow ground`` say what a peak of a map amounts to, beside images without the finding.

    cxrflow calibrate --model results/models/biovil/biovil/seed0 \\
        --cohort results/cohorts/biovil/mimic_cxr \\
        --pixels results/pixels/biovil/mimic_cxr/shorter128

Writes the patches of a few hundred of the cohort's images, as the model encodes them, and the
labels of their reports to ``calibration.safetensors`` in the model folder. They are derived from
patients' images: keep them where those may be. Exports do not hold them.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.grounding.calibration_settings import CalibrationSettings

log = logging.getLogger("cxrflow")


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, encode the images and write the file."""
    arguments = parser(__doc__)
    arguments.add_path("--model", "results/models/<paper>/<model>/seed<k>")
    arguments.add_path("--cohort", "results/cohorts/<paper>/<cohort> of images with reports")
    arguments.add_path("--pixels", "results/pixels/<paper>/<cohort>/<geometry>")
    options = arguments.parse_args(argv)
    calibrate(
        options.model,
        options.cohort,
        options.pixels,
        read_settings(options.settings, CalibrationSettings),
    )


def calibrate(model: Path, cohort: Path, pixels: Path, settings: CalibrationSettings) -> None:
    """Write the calibration of a model folder.

    Raises:
        InputError: a folder cannot be used, or has too few images with reports.
    """
    import cxrflow
    from cxrflow.benchmarks.grounding.calibration import FILE
    from cxrflow.benchmarks.grounding.calibration_studies import calibrate as encoded
    from cxrflow.benchmarks.inputs import Pixels, read_cohort
    from cxrflow.benchmarks.model_pixels import ModelPixels, stored_squares
    from cxrflow.benchmarks.study_images import STUDY
    from cxrflow.training.precision import choose_device

    loaded = cxrflow.load(model, choose_device(settings.device))
    table = read_cohort(cohort, "pairs.parquet", STUDY, settings.split).table
    store = cast(Pixels, ModelPixels(pixels, str(loaded.geometry), loaded.run))
    calibration = encoded(loaded, table, cast(ModelPixels, stored_squares(store)), settings)
    calibration.write(model / FILE)
    log.info("%s: %d images", model / FILE, len(calibration.images))


if __name__ == "__main__":
    run(main)
