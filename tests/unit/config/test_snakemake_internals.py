"""What rules know of Snakemake beyond its documentation: in one file, for one version."""

import importlib.metadata
import inspect
import re

import snakemake.api
import snakemake_executor_plugin_slurm as slurm
from config_overlays import ROOT

INTERNALS = ROOT / "rules/internals.smk"
REACHING = (
    "ruleinfo",
    "_cores",
    "workflow.dag",
    "workflow.rules",
    "dag_settings",
    "pathvars.update",
    "gc.freeze",
    "query_job_status",
)


def test_they_hold_for_the_version_that_is_installed() -> None:
    (version,) = re.findall(r'^HOLDS_FOR = "(.+)"$', INTERNALS.read_text(), re.MULTILINE)
    assert f"{snakemake.__version__}.".startswith(f"{version}."), f"read {INTERNALS} again"
    snakefile = (ROOT / "Snakefile").read_text()
    assert re.findall(r'^min_version\("(.+)"\)$', snakefile, re.MULTILINE) == [version]
    workflow = snakemake.workflow
    for owner, names in (
        (snakemake.ruleinfo.RuleInfo(None), ("retries", "threads", "resources")),
        (workflow.DAG, ("jobid", "needrun_jobs")),
        (workflow.Workflow, ("local_exec", "nodes", "cores", "rules", "dag_settings")),
        (snakemake.settings.types.DAGSettings, ("targets",)),
        (snakemake.resources.Resources, ("from_mapping", "update")),
        (snakemake.pathvars.Pathvars, ("from_config", "update")),
    ):
        assert all(hasattr(owner, name) for name in names), owner


def test_it_outlasts_slurm_in_the_version_that_is_installed() -> None:
    (version,) = re.findall(r"slurm that begin with (.+)\.$", INTERNALS.read_text(), re.MULTILINE)
    installed = importlib.metadata.version("snakemake-executor-plugin-slurm")
    assert f"{installed}.".startswith(f"{version}."), f"read {INTERNALS} again"
    for function, names in (
        (slurm.query_job_status, ["command", "logger"]),
        (slurm.Executor.run_job, ["self", "job"]),
        (slurm.Executor.cancel_jobs, ["self", "active_jobs"]),
    ):
        assert list(inspect.signature(function).parameters) == names, function


def test_no_other_rule_reaches_into_snakemake() -> None:
    for file in (*ROOT.glob("rules/**/*.smk"), ROOT / "Snakefile"):
        text = file.read_text(encoding="utf-8")
        reaching = [word for word in REACHING if word in text]
        assert (reaching == []) == (file != INTERNALS), f"{file}: {reaching}"
