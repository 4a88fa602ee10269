"""What a job of each rule asks for: the entry of the rule under `resources:` of the configuration.

It is said here for all rules. A rule whose jobs differ says its own: an evaluation asks for what its
benchmark does. Options of the command line win, as everywhere.
"""

from snakemake.resources import Resources

OPTIONS = workflow.resource_settings  # of the command line
# Rules that ask under another's name.
ASK_AS = {
    **dict.fromkeys(("build_samples", "build_retrieval"), "build_pairs"),
    "compare_labels": "label_agreement",
}

for stage in workflow.rules:
    if stage.shellcmd is None:  # a target
        continue
    name = ASK_AS.get(stage.name, stage.name)
    if stage.ruleinfo.retries is None:
        stage.restart_times = need(name).retries
    if stage.ruleinfo.threads is None and stage.name not in OPTIONS.overwrite_threads:
        stage.resources["_cores"] = need(name).threads
    if stage.ruleinfo.resources is None:
        for resources in (job(name), OPTIONS.overwrite_resources.get(stage.name, {})):
            stage.resources.update(Resources.from_mapping(resources))
