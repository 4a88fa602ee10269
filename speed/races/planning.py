"""Planning: how long it takes to know the jobs of the demonstration, without running one.

Ours reads and checks the configuration, and finds the graph, and the settings and code of each job.
The peer is Snakemake alone, on a Snakefile in which the same jobs stand as they are: the two differ
by what a configuration costs. Every job that Slurm starts pays a part of that again.

    python -m speed planning
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from speed.race import Race
from speed.races.orchestration import OWN_WORDS, ROOT, Job, planned_jobs, run_in


def plain(jobs: Sequence[Job]) -> str:
    """Return a Snakefile of these jobs, one rule each, the last jobs' products as its targets."""
    needed, made = {file for job in jobs for file in job.needs}, products(jobs)
    targets = [file for job in jobs if needed.isdisjoint(job.makes) for file in job.makes]
    rules = [f"rule all:\n    input: {targets!r}"]
    rules += [
        f"rule job_{number}:\n    input: {[file for file in job.needs if file in made]!r}\n"
        f"    output: {list(job.makes)!r}\n    shell: 'true'"
        for number, job in enumerate(jobs)
    ]
    return "\n\n".join(rules) + "\n"


def products(jobs: Sequence[Job]) -> set[str]:
    """Return the files that jobs make."""
    return {file for job in jobs for file in job.makes}


def check(mine: Sequence[Job], theirs: Sequence[Job]) -> None:
    """As many jobs, and the same products."""
    assert len(mine) == len(theirs)
    assert products(mine) == products(theirs), sorted(products(mine) ^ products(theirs))[:5]


def races() -> list[Race]:
    """The demonstration's graph, in a folder without any product."""
    holder = TemporaryDirectory(prefix="cxrflow-race-")
    folder = Path(holder.name)
    (folder / "config.yaml").write_text((ROOT / "config.yaml").read_text("utf-8"), "utf-8")
    options = ["--cores", "1", "--dry-run", "--printshellcmds", *OWN_WORDS]

    def plan(snakefile: Path) -> list[Job]:
        # Bound to `holder`, whose folder would be removed with its last reference.
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), *options]
        return planned_jobs(run_in(Path(holder.name), command))

    jobs = plan(ROOT / "Snakefile")
    (folder / "plain.smk").write_text(plain(jobs), "utf-8")
    return [
        Race(
            name="planning",
            what=f"a dry run of the demonstration's {len(jobs)} jobs",
            ours=lambda: plan(ROOT / "Snakefile"),
            peers={"Snakemake without a configuration": lambda: plan(folder / "plain.smk")},
            check=check,
            amount=len(jobs),
            unit="job",
            notes=["compared: the products of all jobs", "start and imports count on both sides"],
        )
    ]
