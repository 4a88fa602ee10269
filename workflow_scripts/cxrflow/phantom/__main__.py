"""Write one data set of the synthetic hospital in the layout of the published one.

Example: python -m cxrflow.phantom --dataset mimic_cxr --settings config/hospital.yaml \\
             --threads 2 --output results/phantom/mimic_cxr
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from cxrflow.command import parser, read_settings, run
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.mednli import write_mednli
from cxrflow.phantom.writers.mimic_cxr import write_mimic_cxr
from cxrflow.phantom.writers.mimic_cxr_jpg import write_mimic_cxr_jpg
from cxrflow.phantom.writers.mimic_iii import write_mimic_iii
from cxrflow.phantom.writers.mimic_iv import write_mimic_iv
from cxrflow.phantom.writers.ms_cxr import write_ms_cxr
from cxrflow.phantom.writers.pubmed import write_pubmed
from cxrflow.phantom.writers.radnli import write_radnli
from cxrflow.phantom.writers.rsna import write_rsna
from cxrflow.phantom.writers.stanza_text import write_stanza_entities, write_stanza_text

Writer = Callable[[HospitalSettings, Path, int], bool]
WRITERS: dict[str, Writer] = {
    "mimic_cxr": write_mimic_cxr,
    "mimic_cxr_jpg": write_mimic_cxr_jpg,
    "ms_cxr": write_ms_cxr,
    "rsna": write_rsna,
    "pubmed": write_pubmed,
    "mimic_iii": write_mimic_iii,
    "mimic_iv": write_mimic_iv,
    "radnli": write_radnli,
    "mednli": write_mednli,
    "stanza_text": write_stanza_text,
    "stanza_entities": write_stanza_entities,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Read the arguments and write one data set; a finished folder is left as it is."""
    arguments = parser(__doc__)
    arguments.add_argument("--dataset", required=True, choices=sorted(WRITERS))
    arguments.add_argument("--threads", type=int, default=1, help="processes that draw and write")
    arguments.add_argument("--output", type=Path, required=True, help="folder of the data set")
    arguments.add_argument(
        "--jpg", action="store_true", help="mimic_cxr_jpg: also write the JPG files"
    )
    given = arguments.parse_args(argv)
    settings = read_settings(given.settings, HospitalSettings)
    if given.jpg and given.dataset != "mimic_cxr_jpg":
        arguments.error("--jpg belongs to --dataset mimic_cxr_jpg")
    if given.dataset == "mimic_cxr_jpg":
        write_mimic_cxr_jpg(settings, given.output, given.threads, images=given.jpg)
    else:
        WRITERS[given.dataset](settings, given.output, given.threads)


if __name__ == "__main__":
    run(main)
