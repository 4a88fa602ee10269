"""The programs, by the names under which ``cxrflow`` starts them; a stage is called as its rule."""

from typing import Final

# The training programs that learn. Every program of the workflow reads this file when it starts, so
# it does without ``cxrflow.pretrain.registry``, whose settings take a tenth of a second to import.
LEARNING: Final = (
    *("text", "supervised", "image", "joint", "studies", "image_reports", "temporal", "report"),
    "caption",
)
# What people ask for, then the stages of a run in its order, then pictures of the documentation.
COMMANDS: Final = {
    "label": "reports.label",
    "ground": "commands.ground",
    "calibrate": "commands.calibrate",
    "draft": "commands.draft",
    "zero_shot": "commands.zero_shot",
    "load": "commands.load",
    "export": "commands.export",
    "verify": "commands.verify",
    "config": "config",
    "targets": "config.targets",
    "cost": "config.cost",
}
STAGES: Final = {
    "draw_phantom": "phantom",
    "process_reports": "reports.corpus",
    "collect_text": "text.corpus",
    "train_sentence_splitter": "reports.train_sentence_splitter",
    "train_entity_tagger": "reports.train_entity_tagger",
    "build_cohort": "data.cohorts.build_cohort",
    "store_pixels": "images.store_pixels",
    "register_pairs": "images.register_pairs",
    "build_vocabulary": "text.vocabulary",
    "tokenise_documents": "text.tokens",
    "import_weights": "pretrain.imported",
    "initialise": "pretrain.initial",
    **{f"pretrain_{name}": f"pretrain.{name}" for name in LEARNING},
    "launch": "training.launch",
    "curate_images": "benchmarks.curate_images",
    "extract_features": "benchmarks.extract_features",
    "evaluate": "benchmarks.evaluate",
    "compare_labels": "benchmarks.compare_labels",
    "compare_rows": "benchmarks.compare_rows",
    "make_table": "tables.make_table",
    "check_orderings": "tables.orderings",
    "draw_bars": "tables.bars",
    "draw_curve": "tables.curve",
    "draw_figure": "benchmarks.draw_figure",
    "make_page": "page.make_page",
}
SHEETS: Final = {
    "draw_contact_sheet": "phantom.sheets.contact",
    "draw_course": "phantom.sheets.course",
}
PROGRAMS: Final = COMMANDS | STAGES | SHEETS
_NAMES = {f"cxrflow.{module}": name for name, module in PROGRAMS.items()}


def usage(module: str) -> str:
    """Return the command that starts the program which Python runs as ``module``."""
    module = module.removesuffix(".__main__")
    name = _NAMES.get(module)
    return f"python -m {module}" if name is None else f"cxrflow {name}"
