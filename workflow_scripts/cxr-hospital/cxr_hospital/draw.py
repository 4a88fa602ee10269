"""Draw one data set of the synthetic hospital in the layout of the published one.

    cxr-hospital draw --layout mimic_cxr --patients 200 --seed 0 hospital/mimic_cxr

Settings that have no option of their own are those of --settings (docs/synthetic_hospital.md).
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from cxr_files.program import parser, run, seed_number, thread_count, whole
from cxr_files.settings import read_settings
from cxr_hospital.settings import HospitalSettings

Writer = Callable[..., bool]  # of settings, folder, threads
#: The data sets: modules of ``writers`` that write one, called as they are.
WRITERS: Final = tuple(
    sorted(
        path.stem
        for path in (Path(__file__).parent / "writers").glob("*.py")
        if f"def write_{path.stem}(" in path.read_text(encoding="utf-8")
    )
)


def writer(dataset: str) -> Writer:
    """``write_<dataset>`` of ``cxr_hospital/writers/<dataset>.py``."""
    module = import_module(f"cxr_hospital.writers.{dataset}")
    write: Writer = getattr(module, f"write_{dataset}")
    return write


def main(argv: Sequence[str] | None = None) -> None:
    """Read the arguments and write one data set; a finished folder is left as it is."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--layout", required=True, choices=WRITERS, metavar="LAYOUT", help=", ".join(WRITERS)
    )
    arguments.add_argument(
        "--patients", type=whole(1, 10_000_000), help="of the MIMIC-CXR copy; others follow from it"
    )
    arguments.add_argument("--seed", type=seed_number, help="of everything the hospital holds")
    arguments.add_argument(
        "--threads", type=thread_count, default=1, help="processes that draw and write"
    )
    arguments.add_argument(
        "--jpg",
        action="store_true",
        help="mimic_cxr_jpg: also write the JPG files, of the DICOM files in OUTPUT/../mimic_cxr",
    )
    arguments.add_argument("output", type=Path, help="folder of the data set")
    args = arguments.parse_args(argv)
    settings = read_settings(args.settings, HospitalSettings)
    named = {name: getattr(args, name) for name in ("patients", "seed")}
    settings = settings.model_copy(update={k: v for k, v in named.items() if v is not None})
    if args.jpg and args.layout != "mimic_cxr_jpg":
        arguments.error("--jpg belongs to --layout mimic_cxr_jpg")
    options = {"images": True} if args.jpg else {}
    writer(args.layout)(settings, args.output, args.threads, **options)


if __name__ == "__main__":
    run(main)
