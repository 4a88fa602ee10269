"""Write one data set of the synthetic hospital in the layout of the published one.

    cxrflow draw_phantom --dataset mimic_cxr --settings '{"patients": 100}' \\
        --threads 2 --output hospital/mimic_cxr
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from cxrflow.data.layouts import LAYOUTS, layout
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.programs.program import parser, run, thread_count
from cxrflow.settings import read_settings

Writer = Callable[..., bool]  # of settings, folder, threads
# The layouts with a synthetic copy, and the training texts of two programs of ours.
WRITERS = (*(n for n in LAYOUTS if layout(n).synthetic), "stanza_text", "stanza_entities")


def writer(dataset: str) -> Writer:
    """``write_<dataset>`` of ``phantom/writers/<dataset>.py``."""
    module = import_module(f"cxrflow.phantom.writers.{dataset}")
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


if __name__ == "__main__":
    run(main)
