"""From radiographs and reports to vision-language models, and from the models to papers' tables.

Path grammar (`<results>` is `results`, or what `pathvars:` of the configuration says):

    <results>/phantom/<layout>/MANIFEST.json        synthetic copies, the data sets' byte layout
    <results>/corpus/<dataset>/...                  report sections, sentences, labels; documents
    <results>/stanza/<name>/resources.json          sentence splitter, entity tagger
    <results>/cohorts/<paper>/<cohort>/...          pairs or samples, images, split, flow.json
    <results>/curation/<paper>/<cohort>/...         which images stand for the studies of a cohort
    <results>/pixels/<paper>/<cohort>/<geometry>/... decoded images, memory-mapped
    <results>/vocabulary/<paper>/<name>/...         WordPiece tokenizer
    <results>/tokens/<paper>/<vocabulary>/<dataset>/...  documents as token ids
    <results>/models/<paper>/<model>/seed<k>/...    weights, run.json, metrics.jsonl
    <results>/state/<paper>/<model>/seed<k>/        resumable state; never an output, so that it
                                                    outlives failures, time limits and preemption
    <results>/features/<paper>/<model>/seed<k>/<paper>/<cohort>/...  image features of a cohort
    <results>/benchmarks/<paper>/<task>/<paper>/<model>/seed<k>/metrics.json
    <results>/benchmarks/label_agreement/<dataset>/<reference>/metrics.json
    <results>/tables/<paper>/<table>.{csv,md,html}  with paired tests in <table>.tests.json
    <results>/tables/<paper>/headline/<table>.*     the same, cut to the paper's headline
    <results>/tables/<paper>/orderings.{csv,md,html}
    <results>/figures/<paper>/<figure>.{png,json}
    <results>/report/index.html, <results>/report/<paper>.html, with the pages that they lead to in
                                                    <results>/report/index_files/, <paper>_files/;
                                                    with papers of the user's below
                                                    <results>/report/<their names>/
    <results>/logs/<rule>/..., <results>/timings/<rule>/...

A model, task, cohort or vocabulary is named `<paper>/<name>`. What a run consists of (models, seeds,
cohorts, data sets) follows from the configuration and its papers alone, so the graph is known
before anything has run. A record of a program's settings is `params.settings`, a digest of the code
that defines its result `params.code`: a changed setting or line of code reruns what depends on it,
nothing else.
"""

from snakemake.utils import min_version

min_version("9.27")


configfile: "config.yaml"


pathvars:
    results="results",
    logs="<results>/logs",
    timings="<results>/timings",


include: "rules/internals.smk"
include: "rules/common.smk"
include: "rules/inputs/shared.smk"
include: "rules/priorities.smk"
include: "rules/hospital.smk"
include: "rules/corpus.smk"
include: "rules/cohorts.smk"
include: "rules/pixels.smk"
include: "rules/curation.smk"
include: "rules/vocabulary.smk"
include: "rules/pretrain.smk"
include: "rules/import_weights.smk"
include: "rules/evaluate.smk"
include: "rules/labels.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/page.smk"
include: "rules/targets.smk"


ask_for_resources()
look_once_a_second()
outlast_slurm()


rule all:
    """The tables of every paper in `papers:`, in the configured extent, and the report page."""
    default_target: True
    input:
        tables=lambda wildcards: requested(dict.fromkeys(run.results, run.values.extent)),
        figures=[path for paper in run.results for path in paper_figures(paper, run.values.extent)],
        report=f"{REPORT}/index.html",
