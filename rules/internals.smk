"""What reaches into Snakemake beyond what its documentation offers; nothing else does.

It holds for the versions that begin with HOLDS_FOR. A test compares that with the installed one, and
another that jobs get what is said here: read this file again before the number is raised.
"""

import gc
import subprocess
import sys
import threading
from collections import Counter

from snakemake.pathvars import Pathvars
from snakemake.resources import Resources
from snakemake.scheduling.job_scheduler import JobScheduler

HOLDS_FOR = "9.27"

# Objects of the configuration and the graph live to the end: to look among them for what does not,
# as often as Python does, takes a sixth of the time of planning.
gc.freeze()
gc.set_threshold(100_000, 50, 100)


def overlays():
    """The configuration's files; config.yaml first, whatever order Snakemake lists them in."""
    files = dict.fromkeys(os.path.relpath(file) for file in workflow.configfiles)
    return sorted(files, key=lambda file: file != "config.yaml")


def typed_values():
    """What stood after `--config`: Snakemake has merged it with the files."""
    return workflow.config_settings.config


def is_local():
    """True unless jobs are handed to a cluster; a dry run hands over none."""
    return workflow.local_exec


def is_target(path):
    """True if a file was asked for by its name."""
    return any(os.path.normpath(target).endswith(path) for target in workflow.dag_settings.targets)


def put_results_in(folder):
    """Snakemake has taken `pathvars` from the files as they are written, with `${NAME}` and `~`."""
    workflow.pathvars.update(Pathvars.from_config({"pathvars": {"results": folder}}))


def plan():
    """The jobs of this run, as the console reckons the time left of (cxrflow.console)."""
    jobs = {
        workflow.dag.jobid(job): Job.of(
            job.rule.name, str(job.benchmark), job.input, job.output, job.priority, job.threads
        )
        for job in workflow.dag.needrun_jobs()
    }
    # On a cluster they wait in its queue, and the times on record are of the demonstration.
    reckoned = workflow.local_exec and run.values.scale == "demo"
    cores = workflow.cores if workflow.local_exec else workflow.nodes
    retries = {
        workflow.dag.jobid(job): job.restart_times or 0 for job in workflow.dag.needrun_jobs()
    }
    return Plan.of(jobs, cores, reckoned, retries)


def planned():
    """The rule and the wildcards of each job of this run that is not done."""
    return [(job.rule.name, job.wildcards_dict) for job in workflow.dag.needrun_jobs()]


def ask_for_resources():
    """Give each stage so far its entry under `resources:` of the configuration.

    It is said here for all of them. A stage whose jobs differ says its own: an evaluation asks for
    what its benchmark does. Options of the command line win, as everywhere.
    """
    options = workflow.resource_settings
    for stage in workflow.rules:
        if stage.shellcmd is None:  # a target
            continue
        name = parts.ASK_AS.get(stage.name, stage.name)
        if stage.ruleinfo.retries is None:
            stage.restart_times = need(name).retries
        if stage.ruleinfo.threads is None and stage.name not in options.overwrite_threads:
            stage.resources["_cores"] = need(name).threads
        if stage.ruleinfo.resources is None:
            for resources in (job(name), options.overwrite_resources.get(stage.name, {})):
                stage.resources.update(Resources.from_mapping(resources))


def look_once_a_second():
    """The scheduler looks for jobs when one has ended, and a second after it has looked.

    Snakemake starts that timer at each look, also beside one that runs, so that every job that ends
    adds a timer for good: after 200 jobs it looks 160 times a second and takes a third of a core.
    """
    waits = threading.Event()

    def look(scheduler):
        waits.clear()
        scheduler._open_jobs.release()

    def look_again(self, delay):
        if not waits.is_set():
            waits.set()
            timer = threading.Timer(delay, look, [self])
            timer.daemon = True
            timer.start()

    JobScheduler._schedule_reevalutation = look_again


def outlast_slurm():
    """While Slurm's controller does not answer, its jobs are neither forgotten nor given up.

    Of a question without an answer the plugin drops the jobs and waits for them for ever; a job that
    it cannot submit has failed. It also waits for ever for a job that Slurm does not know, as after
    a crash of the controller: that has failed when the third answer in a row lacks it.
    For versions of snakemake-executor-plugin-slurm that begin with 2.8.
    """
    plugin = sys.modules.get("snakemake_executor_plugin_slurm")
    if plugin is None:
        return
    executor, cancelled = plugin.Executor, threading.Event()
    ask, submit, cancel = plugin.query_job_status, executor.run_job, executor.cancel_jobs
    check, known, lacking = executor.check_active_jobs, [], Counter()

    async def states(command, logger):
        known.clear()
        if not controller_answers():  # accounting would answer, of a requeued job that it is lost
            return {}, 0.0
        answer, seconds = await ask(command, logger)
        if answer is not None and command.startswith("squeue"):
            known.append({number.partition("_")[0] for number in answer})  # of an array, its own
        return answer or {}, seconds or 0.0

    async def check_jobs(self, active_jobs):
        async for job in check(self, active_jobs):
            number = job.external_jobid.partition("_")[0]
            lacking[number] += 1 if known and number not in known[0] else -lacking[number]
            if lacking[number] < 3:
                yield job
            else:
                state = "SLURM status is: 'FORGOTTEN'. "  # as the plugin says the others
                self.report_job_error(job, msg=f"SLURM-job '{number}' is unknown, {state}")

    def submit_later(self, job):
        if not controller_answers():
            logger.warning(f"Slurm does not answer: {job.name} waits to be submitted")
            while not cancelled.wait(5) and not controller_answers():
                pass
        if not cancelled.is_set():
            submit(self, job)

    def cancel_all(self, jobs):
        cancelled.set()
        cancel(self, jobs)

    plugin.query_job_status, executor.check_active_jobs = states, check_jobs
    executor.run_job, executor.cancel_jobs = submit_later, cancel_all


def controller_answers():
    """False if Slurm's controller, and each that stands in for it, is away."""
    said = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, check=False).stdout
    return "UP" in said or "DOWN" not in said
