"""Rehearse a run: each kind of its jobs once, on a slice of its data, for a few steps.

    cxrflow rehearse --configfile paper.yaml
    cxrflow rehearse --configfile paper.yaml --config rehearsal='{batch: 4, image: 64}' --cores 2
    cxrflow rehearse --configfile paper.yaml --profile slurm

To be called in the folder of the Snakefile. Everything is made in `<results>/rehearsal`, and says
that it is of a rehearsal; a job that fails stops only what needs it. At the end `report.md` there
says what failed and what the run will take: hours, storage, memory; `resources.yaml` what its jobs
should ask for, as the key of the configuration takes it. Called again, it goes on where it ended.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cxr_files.program import parser, run, whole
from cxr_files.settings import MOST_CORES
from cxrflow.config import Config, load_config
from cxrflow.config.cost import dry_run
from cxrflow.config.loading import add_files, in_order, require_checkout
from cxrflow.config.rehearsal import targets
from cxrflow.console.rehearsal_report import report


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    arguments = parser(__doc__, settings=False)
    add_files(arguments)
    arguments.add_argument(
        "--cores", type=whole(1, MOST_CORES), default=2, metavar="N", help="CPU cores (default: 2)"
    )
    arguments.add_argument(
        "--profile", help="of Snakemake, such as slurm; --cores is not read then"
    )
    arguments.add_argument(
        "--report", action="store_true", help="run nothing, report on what is there"
    )
    options = arguments.parse_args(argv)
    require_checkout(Path("Snakefile"))
    files, typed = in_order(options.configfile), list(options.config)
    config = load_config(files, typed=typed)
    if config.values.rehearsal is None:
        typed.append("rehearsal={}")
        config = load_config(files, typed=typed)
    if options.report:
        print(_report(config, files, typed))
        return
    command = [sys.executable, "-m", "snakemake", "--keep-going", "--rerun-incomplete"]
    command += targets(config)
    command += ["--profile", options.profile] if options.profile else here(options.cores)
    overlays = [str(file) for file in files if file != Path("config.yaml")]
    command += ["--configfile", *overlays] if overlays else []
    command += ["--config", *typed]
    status = subprocess.run(command, check=False).returncode
    print(_report(config, files, typed))
    sys.exit(status)


def here(cores: int) -> list[str]:
    """Options of Snakemake for jobs on this machine: two at once, and one on each GPU."""
    import torch

    gpus = torch.cuda.device_count()
    limit = ["--resources", f"gpu={gpus}"] if gpus else []
    return ["--cores", str(cores), "--max-threads", str(max(1, cores // 2)), *limit]


def _report(config: Config, files: Sequence[Path], typed: Sequence[str]) -> str:
    """Write the report of what there is."""
    full = load_config(files, typed=[*typed, "rehearsal=null"])
    names = list(map(str, files))
    jobs = dry_run(list(targets(config)), 2, names, typed)
    return report(full, config, jobs, names)


if __name__ == "__main__":
    run(main)
