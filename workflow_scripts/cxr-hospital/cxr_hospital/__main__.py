"""Write one data set of the synthetic hospital in the layout of the published one.

    cxr-hospital --dataset mimic_cxr --settings '{"patients": 100}' \\
        --threads 2 --output hospital/mimic_cxr
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from cxr_files.program import parser, run, thread_count
from cxr_files.settings import read_settings
from cxr_hospital.settings import HospitalSettings

Writer = Callable[..., bool]  # of settings, folder, threads
#: The data sets: modules of ``writers`` that write one, called as they are.
WRITERS = tuple(
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
    arguments.add_argument("--dataset", required=True, choices=WRITERS)
    arguments.add_argument(
        "--threads", type=thread_count, default=1, help="processes that draw and write"
    )
    arguments.add_argument("--output", type=Path, required=True, help="folder of the data set")
    arguments.add_argument(
        "--jpg",
        action="store_true",
        help="mimic_cxr_jpg: also write the JPG files, of the DICOM files in OUTPUT/../mimic_cxr",
    )
    args = arguments.parse_args(argv)
    settings = read_settings(args.settings, HospitalSettings)
    if args.jpg and args.dataset != "mimic_cxr_jpg":
        arguments.error("--jpg belongs to --dataset mimic_cxr_jpg")
    options = {"images": True} if args.jpg else {}
    writer(args.dataset)(settings, args.output, args.threads, **options)


def command() -> None:
    """The console script."""
    run(main)


if __name__ == "__main__":
    run(main)
