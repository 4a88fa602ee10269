"""From radiographs and reports to vision-language models, and from the models to papers' tables.

Path grammar (`<results>` is `results`, or what `pathvars:` of the configuration says):

    <results>/phantom/<layout>/MANIFEST.json        synthetic copies, the data sets' byte layout
    <results>/corpus/<dataset>/...                  report sections, sentences, labels; documents
    <results>/corpus/<dataset>/entities.parquet     named entities of the sentences
    <results>/stanza/<name>/resources.json          sentence splitter, entity tagger
    <results>/cohorts/<cohort>/...                  pairs or samples, images, split, flow.json
    <results>/pixels/<dataset>/<geometry>/...       decoded images, memory-mapped
    <results>/vocabulary/<name>/...                 WordPiece tokenizer
    <results>/tokens/<vocabulary>/<dataset>/...     packed token ids
    <results>/models/<model>/seed<k>/...            weights, run.json, metrics.jsonl
    <results>/features/<model>/seed<k>/<cohort>/... image features of a cohort
    <results>/state/<model>/seed<k>/                resumable state; never an output, so that it
                                                    outlives failures, time limits and preemption
    <results>/benchmarks/<benchmark>/<model>/seed<k>/metrics.json
    <results>/benchmarks/label_agreement/<dataset>/<reference>/metrics.json
    <results>/tables/<paper>/<table>.{csv,md,html}
    <results>/tables/<paper>/<table>.tests.json     paired tests between its rows
    <results>/tables/<paper>/orderings.{csv,md,html}
    <results>/figures/<paper>/<figure>.{png,json}
    <results>/report/index.html
    <results>/logs/<rule>/..., <results>/timings/<rule>/...

What a run consists of (models, seeds, cohorts, data sets) follows from the configuration alone, so
the graph is known before anything has run. Settings reach a program as `params`, its defining
source files as `input.code`: a changed setting or source reruns what depends on it, nothing else.
"""

from snakemake.utils import min_version

min_version("9.27")


configfile: "config.yaml"


pathvars:
    results="results",
    logs="<results>/logs",
    timings="<results>/timings",


include: "rules/common.smk"
include: "rules/results.smk"
include: "rules/phantom.smk"
include: "rules/corpus.smk"
include: "rules/cohorts.smk"
include: "rules/pixels.smk"
include: "rules/vocabulary.smk"
include: "rules/tokens.smk"
include: "rules/pretrain_text.smk"
include: "rules/pretrain_image.smk"
include: "rules/pretrain_joint.smk"
include: "rules/import_weights.smk"
include: "rules/features.smk"
include: "rules/benchmarks/vocabulary.smk"
include: "rules/benchmarks/mask_prediction.smk"
include: "rules/benchmarks/label_agreement.smk"


# Benchmarks of images, and of sentence pairs, are left out where no cohort plays their role.
if run.available("phrase_grounding"):

    include: "rules/benchmarks/phrase_grounding.smk"
    include: "rules/benchmarks/ms_cxr_statistics.smk"
    include: "rules/figures.smk"


if run.available("zero_shot_classification"):

    include: "rules/benchmarks/zero_shot_classification.smk"


if run.available("linear_probe"):

    include: "rules/benchmarks/linear_probe.smk"


if run.available("segmentation"):

    include: "rules/benchmarks/segmentation.smk"


if run.available("natural_language_inference"):

    include: "rules/benchmarks/natural_language_inference.smk"


if run.available("sentence_similarity"):

    include: "rules/benchmarks/sentence_similarity.smk"


include: "rules/tables.smk"
include: "rules/report.smk"


default_target: "all"


rule all:
    """Every table and figure of every paper in `papers:`, and the report page."""
    input:
        tables=[table for paper in run.papers for table in paper_tables(paper)],
        figures=[figure for paper in run.papers for figure in paper_figures(paper)],
        report="<results>/report/index.html",
        entities=report_entities() if run.datasets[run.report_dataset].synthetic else [],


rule demo:
    """The same as `all`: with the configuration as it comes, this is the demonstration."""
    input:
        rules.all.input,


rule biovil:
    """BioViL: its models, its tables, its figures."""
    input:
        paper_tables("biovil"),
        paper_figures("biovil"),
        paper_models("biovil"),


rule labels:
    """How well our report labels agree with given ones; needs no model."""
    input:
        label_agreements(),


rule entities:
    """The named entities of the reports, words of change marked."""
    input:
        report_entities(),


rule controls:
    """Models that must fail, such as one trained on shuffled pairs, and their benchmarks."""
    input:
        control_metrics(),
