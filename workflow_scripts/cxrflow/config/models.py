"""The cohorts, vocabularies and models of a run: a paper's word, its scale, the configuration's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cxr_files.errors import InputError
from cxr_files.settings import Settings
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.datasets import Datasets, ResolvedCohort
from cxrflow.config.papers import Library, laid_over
from cxrflow.config.problems import Key, WrongKey
from cxrflow.config.schema import Values
from cxrflow.data.cohorts.settings import READ_BY
from cxrflow.encoders.released.settings import PUBLISHED
from cxrflow.images.geometry import Geometry
from cxrflow.kinds import modules_of
from cxrflow.names import is_reference, name_of_share, paper_of, short_name
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.entries import Overlay
from cxrflow.papers.external import ExternalModel
from cxrflow.papers.recipes import CohortRecipe, Curation, ModelScale, Recipe, VocabularyRecipe
from cxrflow.similarity.settings import module_of


@dataclass(frozen=True)
class ResolvedModel:
    """A model with the settings its training program receives, every default filled in."""

    name: str
    recipe: Recipe
    settings: Settings
    geometry: str | None

    def described(self) -> dict[str, Any]:
        """Plain values: what it is made from, and the settings."""
        left_out = {"settings", "scales", "geometry", "shares"}
        made_from = self.recipe.model_dump(mode="json", exclude=left_out, exclude_none=True)
        settings = self.settings.record()
        return made_from | {"geometry": self.geometry, "settings": settings}


class Models(Values):
    """A configuration with its papers, its data sets and what is trained on them."""

    # --- papers and data sets -----------------------------------------------------------------

    @cached_property
    def library(self) -> Library:
        """The chosen papers and all that they use."""
        return Library(self.papers)

    @property
    def chosen(self) -> dict[str, Paper]:
        """The chosen papers by name."""
        return self.library.chosen

    @cached_property
    def data(self) -> Datasets:
        """The data sets of this run."""
        return Datasets(self.datasets, self.synthetic_hospital)

    @cached_property
    def known_cohorts(self) -> dict[str, ResolvedCohort]:
        """Every cohort of the papers that this run has the data of."""
        resolved = (
            self.data.cohort(name, self._cohort_recipe(name, recipe))
            for name, recipe in self.library.cohorts.items()
            if self.cohorts.get(name, {}) is not None
        )
        return {cohort.name: cohort for cohort in resolved if cohort is not None}

    def _cohort_recipe(self, name: str, recipe: CohortRecipe) -> CohortRecipe:
        overrides = self.cohorts.get(name) or {}
        # Another data set brings its own images.
        own_images = {"images": None} if "dataset" in overrides else {}
        written = recipe.model_dump(exclude={"scales"}) | own_images
        scaled = recipe.scales.get(self.scale, {})
        resolved = laid_over(
            CohortRecipe,
            self.library.overlay("cohorts", name, written),
            self.library.overlay("cohorts", name, scaled, "scales", self.scale),
            Overlay(overrides, ("cohorts", name)),
        )
        splits = overrides.get("splits")
        if isinstance(splits, Mapping) and "method" not in splits:
            method = resolved.split_method
            for value in sorted(set(splits) & set(READ_BY)):
                if method not in READ_BY[value]:
                    raise WrongKey(
                        ("cohorts", name, "splits", value),
                        f"is not read by method {method}, which the cohort has; expected "
                        f"`method: {' or '.join(READ_BY[value])}` beside it",
                    )
        return resolved

    @cached_property
    def known_vocabularies(self) -> dict[str, VocabularyRecipe]:
        """Every vocabulary of the papers that this run has a text for."""
        resolved = {}
        for name, recipe in self.library.vocabularies.items():
            scaled = recipe.scales.get(self.scale, {})
            resolved[name] = laid_over(
                VocabularyRecipe,
                self.library.overlay("vocabularies", name, recipe.model_dump(exclude={"scales"})),
                self.library.overlay("vocabularies", name, scaled, "scales", self.scale),
                Overlay(self.vocabularies.get(name, {}), ("vocabularies", name)),
            )
        return {name: each for name, each in resolved.items() if self.data.places(each.documents)}

    def curation(self, cohort: str | None) -> Curation | None:
        """How a cohort is curated, if it is."""
        known = self.known_cohorts.get(cohort or "")
        return known.recipe.curation if known else None

    def curators(self, *cohorts: str | None) -> list[str]:
        """The models that choose among the images of these cohorts' studies."""
        return [each.model for each in map(self.curation, cohorts) if each is not None]

    def has_cohort(self, name: str) -> bool:
        """True if this run has the data of a cohort, and of the model that curates it."""
        curation = self.curation(name)
        if curation is None:
            return name in self.known_cohorts
        return curation.candidates in self.known_cohorts and self.trainable(curation.model)

    def vocabulary_datasets(self, name: str) -> list[str]:
        """The data sets a vocabulary is made from."""
        return self.data.places(self.known_vocabularies[name].documents)

    # --- models -----------------------------------------------------------------------------

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """The models of the chosen papers and those they use, by names in full, at this scale."""
        return {name: recipe.at(self.scale) for name, recipe in self.library.models.items()}

    @property
    def external(self) -> dict[str, ExternalModel]:
        """The models of the papers' tables that were run elsewhere, by names in full."""
        return self.library.external

    def model(self, name: str) -> ResolvedModel:
        """The recipe and the complete settings of a model."""
        if name not in self.recipes:
            raise InputError(f"model: {unknown(name, self.recipes)}")
        if name not in self._models:
            self._models[name] = self._resolve(name, self.recipes[name])
        return self._models[name]

    @cached_property
    def _models(self) -> dict[str, ResolvedModel]:
        return {}

    def _resolve(self, name: str, recipe: Recipe) -> ResolvedModel:
        scaled = recipe.scales.get(self.scale, ModelScale())
        whole = self._whole(name)
        # Of a share all is as of the whole, but for the share.
        above = {k: v for k, v in self.models.get(whole or "", {}).items() if k != "training_share"}
        override = dict(self.models.get(name, {}))
        geometry = above.pop("geometry", scaled.geometry or recipe.geometry)
        geometry = override.pop("geometry", geometry)
        if recipe.geometry is None and geometry is not None:
            raise WrongKey(("models", name, "geometry"), "the model sees no images")
        layers = (
            recipe.kind.settings,
            self.library.overlay("models", name, recipe.settings, "settings"),
            self.library.overlay("models", name, scaled.settings, "scales", self.scale, "settings"),
            Overlay(above, ("models", whole or name)),
            Overlay(override, ("models", name)),
        )
        weights = self.weights.get(name)
        if weights is not None and recipe.weights is not None:
            if override:  # not read, as weights have settings of their own, but they must be right
                laid_over(*layers)
            imported = weights.settings(recipe.weights, geometry)
            geometry = spelt(imported.geometry, ("weights", name, "geometry"))
            imported = imported.model_copy(update={"geometry": geometry})
            return ResolvedModel(name, recipe, imported, geometry)
        settings: Settings = laid_over(*layers)
        geometry = spelt(geometry, ("models", name, "geometry"))
        return ResolvedModel(name, recipe, settings, geometry)

    def _whole(self, name: str) -> str | None:
        """The model with `shares` of which a model is one, if it is."""
        paper = paper_of(name)
        models = (self.chosen.get(paper) or load_paper(self.library.source(paper))).models
        for short, recipe in models.items():
            shares = (share for share in recipe.shares or () if share < 100)
            if any(name_of_share(short, share) == short_name(name) for share in shares):
                return f"{paper}/{short}"
        return None

    @cached_property
    def _trainable(self) -> dict[str, bool]:
        return {}

    def trainable(self, name: str) -> bool:
        """True if this run has the data of this model, and of all it is made from."""
        if name not in self._trainable:
            recipe = self.recipes[name]
            # Without a cohort a model may be nothing but published weights.
            has_cohort = self.has_cohort(recipe.cohort) if recipe.cohort else recipe.weights is None
            has_text = not recipe.corpora or bool(self.corpora_of(name))
            has_words = recipe.vocabulary is None or recipe.vocabulary in self.known_vocabularies
            parents = all(self.trainable(parent) for parent in recipe.parents.values())
            shares = recipe.scales.get(self.scale, ModelScale()).shares
            of_scale = shares is None or recipe.share in shares
            has_choice = recipe.selection is None or self.has_cohort(
                self.library.tasks[recipe.selection].cohort
            )
            knows = not recipe.truth or (has_cohort and self._knows_boxes(recipe.cohort or ""))
            able = has_cohort and has_text and has_words and parents and of_scale and has_choice
            able = able and knows
            self._trainable[name] = able or self.imported(name)
        return self._trainable[name]

    @property
    def knows_findings(self) -> bool:
        """True if the synthetic hospital writes down the truth of findings."""
        return self.synthetic_hospital is not None and self.synthetic_hospital.finding_truth

    def _knows_boxes(self, cohort: str) -> bool:
        """True if a cohort's findings have true boxes."""
        return self.knows_findings and self.data.drawn(*self.known_cohorts[cohort].sources)

    def imported(self, name: str) -> bool:
        """True if published weights stand for a model, which is then not trained."""
        return name in self.weights

    def trained(self, name: str) -> bool:
        """True if a model is trained here: not imported, and more than an initial encoder."""
        return not self.imported(name) and self.recipes[name].kind.learns

    def selecting_cohort(self, name: str) -> str | None:
        """The cohort whose score chooses the weights of a model that is trained here, if any."""
        task = None if self.imported(name) else self.recipes[name].selection
        return None if task is None else self.library.tasks[task].cohort

    def seeds_of(self, name: str) -> list[int]:
        """The seeds a model is trained with; there is one of what is not trained."""
        if is_reference(name) or name in self.external:
            return [0]
        recipe = self.recipes[name]
        shared = recipe.seeds == "shared"
        if shared and not recipe.kind.learns and recipe.image is not None:
            return self.seeds_of(recipe.image)  # whose weights it has
        one = recipe.seeds == "once" or (shared and self.shared_models == "once")
        return self.seeds[:1] if one or self.imported(name) else list(self.seeds)

    def parents_of(self, name: str) -> dict[str, str]:
        """The models that a model of this run is made from: none if it is imported."""
        return {} if self.imported(name) else self.recipes[name].parents

    def parents(self, name: str, seed: int) -> dict[str, tuple[str, int]]:
        """(model, seed) of each model it is made from, by the option that takes it."""
        return {
            option: (parent, seed if seed in self.seeds_of(parent) else self.seeds_of(parent)[0])
            for option, parent in self.parents_of(name).items()
        }

    def ancestors(self, name: str) -> list[str]:
        """All models that a model is made from, and itself, first the first to be trained.

        The model that curates what it is trained on is one of them.
        """
        parents = list(self.parents_of(name).values())
        if not self.imported(name):
            parents += self.curators(self.recipes[name].cohort)
        before = [name for parent in parents for name in self.ancestors(parent)]
        return list(dict.fromkeys([*before, name]))

    def code_of(self, name: str) -> list[str]:
        """The modules behind a training: its program, and what that imports by name."""
        settings = self.model(name).settings
        program = f"pretrain.{self.recipes[name].program}"
        terms = getattr(settings, "terms", None)
        names = terms.modules if terms is not None else ()
        modules = [program, *(f"pretrain.terms.{term}" for term in names), *self.kinds_of(name)]
        return [*modules, *self._selecting_code(name)]

    def _selecting_code(self, name: str) -> list[str]:
        """The modules by which a task chooses the weights of a model."""
        task = self.recipes[name].selection
        if task is None:
            return []
        benchmark = BENCHMARKS[self.library.tasks[task].benchmark]
        reading = ("benchmarks.model_inputs", "benchmarks.features")
        return ["pretrain.validation.selection", f"benchmarks.{benchmark.program}", *reading]

    def kinds_of(self, name: str) -> list[str]:
        """The modules of a model's trunk, heads and, unless it is the cosine, its similarity.

        A half that it starts from may be of other kinds. Their code made that half, which is an
        input, and so an edit of theirs reaches this model as well.
        """
        settings, weights = self.model(name).settings, self.recipes[name].weights
        modules = modules_of(settings)
        if self.imported(name) and weights and PUBLISHED[weights].trunk:
            modules.append(f"encoders.{PUBLISHED[weights].trunk}")
            if PUBLISHED[weights].vocabulary:
                modules.append("encoders.clip_text")
        terms = getattr(settings, "terms", None)
        if terms is not None and terms.similarity is not None:
            modules.append(module_of(terms.similarity))
        return modules

    # --- the texts of text models -------------------------------------------------------------

    def vocabulary_of(self, name: str) -> str:
        """The vocabulary of a text model: its own, or that of the model it starts from."""
        recipe = self.recipes[name]
        # A recipe of a text model has one of the two.
        return recipe.vocabulary or self.vocabulary_of(recipe.start or "")

    def vocabulary_model(self, name: str) -> str | None:
        """The imported model whose vocabulary a text model has, if it goes back to one."""
        if self.imported(name):
            return name
        start = self.recipes[name].start
        return None if start is None else self.vocabulary_model(start)

    def corpora_of(self, name: str) -> list[str]:
        """The data sets whose packed documents a text model is trained on."""
        return self.data.places(self.recipes[name].corpora)

    def document_cohort(self, dataset: str, paper: str) -> str | None:
        """The pairs cohort that splits a data set's documents for a paper, if there is one.

        One of the paper's own; among several, or without any, one that models of its vocabularies
        are trained on.
        """
        read = [
            recipe.cohort
            for recipe in self.recipes.values()
            if recipe.vocabulary is not None and paper_of(recipe.vocabulary) == paper
        ]
        fitting = (
            name
            for name, cohort in self.known_cohorts.items()
            if cohort.recipe.kind == "pairs" and cohort.dataset == dataset
            if cohort.recipe.curation is None  # which may need a model of these documents
        )
        # So that a paper more, whose cohorts may come first, changes nothing for this one.
        place = {name: rank for rank, name in enumerate(dict.fromkeys(read))}
        ranked = sorted(fitting, key=lambda n: (paper_of(n) != paper, place.get(n, len(read))))
        return next(iter(ranked), None)


def spelt(geometry: str | None, key: Key) -> str | None:
    """A geometry in the one spelling that names its folder."""
    try:
        return geometry and str(Geometry.parse(str(geometry)))
    except InputError as error:
        raise WrongKey(key, str(error)) from None


def unknown(name: str, known: Iterable[str]) -> str:
    """Describe a name that refers to nothing, and list the known ones."""
    return f"'{name}' is not known; there are {', '.join(sorted(known)) or 'none'}"
