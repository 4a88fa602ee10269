"""The programs that are no trainings, by the names under which ``cxrflow`` starts them.

A stage is called as its rule. Every program imports this module when it starts, for its own name;
``cxrflow.programs.registry`` adds the trainings, whose settings take a tenth of a second to import.
"""

from typing import Final

# What people ask for, then the stages of a run in its order.
COMMANDS: Final = {
    "label": "cxr_labels.command",
    "ground": "commands.ground",
    "calibrate": "commands.calibrate",
    "draft": "commands.draft",
    "zero_shot": "commands.zero_shot",
    "load": "commands.load",
    "export": "commands.export",
    "verify": "commands.verify",
    "adopt": "commands.adopt.adopt",
    "audit": "commands.audit.audit",
    "compare": "commands.compare.compare",
    "config": "config",
    "plan": "config.plan",
    "targets": "config.targets",
    "cost": "config.cost",
    "rehearse": "console.rehearse",
    "record": "show.records.record",
    "render": "show.records.documentation",
}
BEFORE_TRAINING: Final = {
    "draw_phantom": "cxr_hospital.draw",
    "process_reports": "reports.corpus",
    "collect_text": "text.corpus",
    "train_sentence_splitter": "reports.train_sentence_splitter",
    "train_entity_tagger": "reports.train_entity_tagger",
    "build_cohort": "data.cohorts.build_cohort",
    "join_cohorts": "data.cohorts.join_cohorts",
    "store_pixels": "images.store_pixels",
    "register_pairs": "images.register_pairs",
    "build_vocabulary": "text.vocabulary",
    "tokenise_documents": "text.tokens",
    "import_weights": "pretrain.imported",
    "initialise": "pretrain.initial",
}
AFTER_TRAINING: Final = {
    "launch": "training.launch",
    "curate_images": "benchmarks.data.curate_images",
    "extract_features": "benchmarks.extract_features",
    "evaluate": "benchmarks.evaluate",
    "compare_labels": "benchmarks.data.compare_labels",
    "compare_rows": "benchmarks.compare_rows",
    "make_table": "show.tables.make_table",
    "check_orderings": "show.tables.orderings",
    "make_certificate": "show.tables.certificate",
    "draw_bars": "show.figures.bars",
    "draw_curve": "show.figures.curve",
    "draw_figure": "benchmarks.draw_figure",
    "make_page": "show.page.make_page",
}
