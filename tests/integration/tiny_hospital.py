"""A tiny hospital taken through every stage: one method a program, results where they are told."""

from pathlib import Path
from typing import Any

from programs import End, program

GEOMETRY = "shorter32"
HOSPITAL = {
    "patients": 20,
    "image_size": 64,
    "rsna_images": 12,
    "abstracts": 8,
    "notes": 8,
    "ms_cxr_patient_share": 0.3,
    "spoilt_share": 0.0,
    "compressed_share": 0.0,
}
SHARES = {"train": 0.5, "validate": 0.25, "test": 0.25}
TEXT = {"layers": 2, "width": 16, "heads": 2, "feed_forward": 32, "positions": 64, "projection": 8}
IMAGE = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1, "projection": 8}
FRAMES = {
    **IMAGE,
    "kind": "multi_image",
    "comparison": {"width": 8, "heads": 2, "feed_forward": 8},
}
TRAINING = {
    "batch_size": 4,
    "steps": 2,
    "precision": "fp32",
    "device": "cpu",
    "log_steps": 1,
    "validations": 1,
}
AUGMENTATION = {"angle": 10}


class Stages:
    """The commands of the workflow on the hospital in ``root``; earlier results in ``results``."""

    def __init__(self, root: Path, results: Path) -> None:
        self.root, self.results = root, results
        self.cohort, self.corpus = results / "cohort", results / "corpus"
        self.pixels, self.vocabulary = results / "pixels", results / "vocabulary"
        self.tokens, self.models = results / "tokens", results / "models"
        self.grounding, self.rsna = results / "grounding", results / "rsna"

    def data(self, name: str) -> Path:
        return self.root / name

    def _of(self, name: str) -> dict[str, Any]:
        """The options that name a data set."""
        return {"layout": name, "root": self.data(name)}

    def make_corpus(self, output: Path, real: bool = False, **settings: object) -> End:
        return program(
            "reports.corpus", settings, **self._of("mimic_cxr"), output=output, real=real
        )

    def collect_notes(self, output: Path) -> End:
        return program("text.corpus", **self._of("mimic_iii"), output=output)

    def make_cohort(
        self, output: Path, corpus: Path | None = None, real: bool = False, **settings: object
    ) -> End:
        return program(
            "data.cohorts.build_cohort",
            {"splits": {"shares": SHARES}, **settings},
            **self._of("mimic_cxr"),
            corpus=corpus or self.corpus,
            held_out=f"ms_cxr={self.data('ms_cxr')}",
            output=output,
            real=real,
        )

    def make_grounding(self, output: Path) -> End:
        images = {"images_layout": "mimic_cxr", "images_root": self.data("mimic_cxr")}
        return program(
            "data.cohorts.build_cohort",
            {"kind": "grounding"},
            **self._of("ms_cxr"),
            **images,
            output=output,
        )

    def make_rsna(self, output: Path) -> End:
        return program(
            "data.cohorts.build_cohort",
            {"kind": "classification"},
            **self._of("rsna"),
            output=output,
        )

    def make_pixels(
        self,
        output: Path,
        images: Path | None = None,
        dataset: str = "mimic_cxr",
        geometry: str = GEOMETRY,
        real: bool = False,
        **settings: object,
    ) -> End:
        return program(
            "images.store_pixels",
            {"images_per_shard": 8, **settings},
            root=self.data(dataset),
            images=images or self.cohort / "images.parquet",
            geometry=geometry,
            output=output,
            real=real,
        )

    def make_vocabulary(self, output: Path, size: int = 300) -> End:
        documents = self.cohort / "documents.parquet"
        return program("text.vocabulary", {"size": size}, documents=documents, output=output)

    def make_tokens(self, output: Path) -> End:
        documents = self.cohort / "documents.parquet"
        return program(
            "text.tokens", documents=documents, vocabulary=self.vocabulary, output=output
        )

    def _train(self, kind: str, settings: dict[str, Any], folder: Path, **inputs: object) -> End:
        return program(
            f"pretrain.{kind}",
            {"training": TRAINING, **settings},
            pairs=self.cohort / "pairs.parquet",
            model="tiny",
            seed=0,
            state=folder.with_name(f"state-{folder.name}"),
            output=folder,
            **inputs,
        )

    def train_words(
        self, folder: Path, tokens: Path | None = None, vocabulary: Path | None = None
    ) -> End:
        """Phase II."""
        inputs = {"vocabulary": vocabulary or self.vocabulary, "tokens": tokens or self.tokens}
        return self._train(
            "text", {"encoder": TEXT, "length": 48, "terms": {"mlm": {}}}, folder, **inputs
        )

    def train_sections(self, folder: Path, vocabulary: Path | None = None) -> End:
        """Phase III."""
        settings = {"length": 48, "terms": {"section_matching": {}, "mlm": {}}}
        inputs = {"vocabulary": vocabulary or self.vocabulary, "start": self.models / "words"}
        return self._train("text", settings, folder, **inputs)

    def train_images(self, folder: Path, pixels: Path | None = None, **settings: object) -> End:
        """SimCLR."""
        settings = {
            "encoder": IMAGE,
            "augmentation": AUGMENTATION,
            "terms": {"simclr": {"hidden": 8, "output": 4}},
            **settings,
        }
        return self._train("image", settings, folder, pixels=pixels or self.pixels)

    def train_joint(self, folder: Path, pixels: Path | None = None, **settings: object) -> End:
        terms = {"global_alignment": {}, "mlm": {}}
        common = {"encoder": IMAGE, "augmentation": AUGMENTATION, "length": 48, "terms": terms}
        settings = {**common, **settings}
        starts = {"text": self.models / "sections", "image": self.models / "images"}
        return self._train("joint", settings, folder, pixels=pixels or self.pixels, **starts)

    def train_temporal(self, folder: Path, pixels: Path | None = None, **settings: object) -> End:
        terms = {"global_alignment": {}, "mlm": {}}
        common = {"encoder": FRAMES, "augmentation": AUGMENTATION, "length": 48, "terms": terms}
        starts = {"text": self.models / "words", "image": self.models / "joint"}
        return self._train(
            "temporal", {**common, **settings}, folder, pixels=pixels or self.pixels, **starts
        )

    def _score(self, benchmark: str, settings: dict[str, Any], **inputs: object) -> End:
        common = {"device": "cpu", "intervals": {"replicates": 100}}
        return program("benchmarks.evaluate", {**common, **settings}, benchmark, **inputs)

    def ground(self, output: Path, pixels: Path | None = None) -> End:
        return self._score(
            "phrase_grounding",
            {},
            model=self.models / "joint",
            cohort=self.grounding,
            pixels=pixels or self.results / "pixels-grounding",
            output=output,
        )

    def extract(self, output: Path, pixels: Path | None = None) -> End:
        """Image features of the RSNA-like images."""
        return program(
            "benchmarks.extract_features",
            {"device": "cpu"},
            model=self.models / "joint",
            cohort=self.rsna,
            pixels=pixels or self.results / "pixels-rsna",
            output=output,
        )

    def classify(self, output: Path, pixels: Path | None = None) -> End:
        """Zero-shot, from features made for it."""
        features = output.with_name(f"features-{output.name}")
        extracted = self.extract(features, pixels)
        if extracted.code:
            return extracted
        return self._score(
            "zero_shot_classification",
            {"split": None},
            model=self.models / "joint",
            cohort=self.rsna,
            features=features,
            output=output,
        )

    def predict_masks(self, output: Path, model: Path | None = None) -> End:
        return self._score(
            "mask_prediction",
            {"max_length": 48},
            model=model or self.models / "joint",
            cohort=self.cohort,
            output=output,
        )

    def compare_vocabularies(self, output: Path) -> End:
        return program(
            "benchmarks.evaluate",
            None,
            "vocabulary",
            vocabulary=self.vocabulary,
            cohort=self.cohort,
            output=output,
        )


def no_state(output: Path) -> bool:
    """No training state was begun beside ``output``."""
    return not output.with_name(f"state-{output.name}").exists()


def build(folder: Path) -> Stages:
    """Draw the hospital and take it through every stage, each of which must succeed."""
    stages = Stages(folder / "data", folder / "results")
    for dataset in ("mimic_cxr", "ms_cxr", "rsna", "pubmed", "mimic_iii"):
        program("cxr_hospital.draw", HOSPITAL, stages.data(dataset), layout=dataset).succeeds()
    results = stages.results
    for end in (
        stages.make_corpus(stages.corpus),
        stages.make_cohort(stages.cohort),
        stages.make_grounding(stages.grounding),
        stages.make_rsna(stages.rsna),
        stages.make_pixels(stages.pixels),
        stages.make_pixels(results / "pixels-grounding", stages.grounding / "images.parquet"),
        stages.make_pixels(results / "pixels-rsna", stages.rsna / "images.parquet", "rsna"),
        stages.make_vocabulary(stages.vocabulary),
        stages.make_tokens(stages.tokens),
        stages.train_words(stages.models / "words"),
        stages.train_sections(stages.models / "sections"),
        stages.train_images(stages.models / "images"),
        stages.train_joint(stages.models / "joint"),
    ):
        end.succeeds()
    return stages
