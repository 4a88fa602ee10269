"""The models of a run: a paper's word, its scale, the configuration's; what each is made from."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from cxr_files.atomic import fingerprint
from cxr_files.errors import InputError
from cxr_files.settings import Settings
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.cohorts import Cohorts, Texts
from cxrflow.config.datasets import Datasets
from cxrflow.config.lacks import Lack, Lacks, distinct
from cxrflow.config.papers import Library, laid_over
from cxrflow.config.problems import Key, WrongKey, unknown
from cxrflow.config.schema import Values
from cxrflow.encoders.released.settings import publication
from cxrflow.images.geometry import Geometry
from cxrflow.kinds import is_outside, modules_of
from cxrflow.names import paper_of, short_name
from cxrflow.papers.entries import Overlay
from cxrflow.papers.figures import BarsFigure, CurveFigure
from cxrflow.papers.recipes import ModelScale, Recipe
from cxrflow.similarity.settings import module_of

#: Fields of a recipe by which two models differ, beside settings, geometry, seeds and parents.
MADE_FROM = {
    *("program", "cohort", "vocabulary", "corpora", "selection", "truth", "overlap"),
    "shuffled_twins",
}


class Selection(NamedTuple):
    """The models and the cells (task, row) that a rehearsal makes of a run."""

    models: Sequence[str]
    cells: frozenset[tuple[str, str]]


class ResolvedModel:
    """A model at the scale of a run, and what follows from its recipe."""

    def __init__(self, name: str, recipe: Recipe, models: "Models") -> None:
        self.name, self.recipe, self._models = name, recipe, models
        #: True if published weights stand for it, which is then not trained.
        self.imported = name in models.weights

    # --- what its program receives ------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings its program receives, every default filled in."""
        return self._resolved[0]

    @property
    def geometry(self) -> str | None:
        """The geometry of the pixels it sees."""
        return self._resolved[1]

    @cached_property
    def _resolved(self) -> tuple[Settings, str | None]:
        name, recipe, values = self.name, self.recipe, self._models.choices
        library, scale = self._models.library, values.scale
        scaled = recipe.scales.get(scale, ModelScale())
        name_of_whole = library.whole(name)
        # Of a share all is as of the whole, but for the share.
        above = {k: v for k, v in values.models.get(name_of_whole or "", {}).items()}
        above.pop("training_share", None)
        override = dict(values.models.get(name, {}))
        geometry = above.pop("geometry", scaled.geometry or recipe.geometry)
        geometry = override.pop("geometry", geometry)
        if recipe.geometry is None and geometry is not None:
            raise WrongKey(("models", name, "geometry"), "the model sees no images")
        layers = (
            recipe.kind.settings,
            library.overlay("models", name, recipe.settings, "settings"),
            library.overlay("models", name, scaled.settings, "scales", scale, "settings"),
            Overlay(above, ("models", name_of_whole or name)),
            Overlay(override, ("models", name)),
        )
        weights = self._models.weights.get(name)
        if weights is None and recipe.weights is not None and recipe.cohort is None:
            raise InputError(f"model {name} lacks {'; '.join(map(str, self.lacks))}")
        if weights is None or recipe.weights is None:
            settings: Settings = laid_over(*layers)
            return settings, geometry_name(geometry, ("models", name, "geometry"))
        if override:  # not read, as weights have settings of their own, but they must be right
            laid_over(*layers)
        imported = weights.settings(recipe.weights, geometry)
        geometry = geometry_name(imported.geometry, ("weights", name, "geometry"))
        return imported.model_copy(update={"geometry": geometry}), geometry

    def described(self) -> dict[str, Any]:
        """Plain values: what it is made from, and the settings."""
        left_out = {"settings", "scales", "geometry", "shares"}
        made_from = self.recipe.model_dump(mode="json", exclude=left_out, exclude_none=True)
        return made_from | {"geometry": self.geometry, "settings": self.settings.record()}

    @property
    def code(self) -> list[str]:
        """The modules behind its training: its program, and what that imports by name."""
        terms = getattr(self.settings, "terms", None)
        names = terms.modules if terms is not None else ()
        modules = [f"pretrain.{self.recipe.program}", *(f"pretrain.terms.{n}" for n in names)]
        modules += self.parts
        if self.recipe.selection is not None:  # a task chooses its weights
            benchmark = BENCHMARKS[self._models.library.tasks[self.recipe.selection].benchmark]
            modules += ["pretrain.validation.selection", benchmark.code(benchmark.program)]
            modules += ["benchmarks.model_inputs", "benchmarks.features"]
        return modules

    @property
    def parts(self) -> list[str]:
        """The modules of its trunk, heads and, unless it is the cosine, its similarity.

        A half that it starts from may be of other kinds. Their code made that half, which is an
        input, and so an edit of theirs reaches this model as well.
        """
        modules, weights = modules_of(self.settings), self.recipe.weights
        published = publication(weights) if weights and self.imported else None
        if published and published.trunk:
            outside = is_outside(published.trunk)
            modules.append(published.trunk if outside else f"encoders.{published.trunk}")
            if published.vocabulary:
                modules.append("encoders.clip_text")
        terms = getattr(self.settings, "terms", None)
        if terms is not None and terms.similarity is not None:
            modules.append(module_of(terms.similarity))
        return modules

    # --- what it can do -----------------------------------------------------------------------

    @property
    def trained(self) -> bool:
        """True if it is trained here: not imported, and more than an initial encoder."""
        return not self.imported and self.recipe.kind.learns

    @property
    def offers(self) -> set[str]:
        """The abilities that a benchmark can ask for."""
        offers = self.recipe.offers | ({"run"} if self.trained else set())
        # Published weights come without them.
        return offers - {"guided", "checkpoints"} if self.imported else offers

    @property
    def trainable(self) -> bool:
        """True if this run has the data of this model, and of all it is made from."""
        return not self.lacks

    @cached_property
    def lacks(self) -> Lacks:
        """What this run lacks for it: data, the models it is made from, a size, a truth."""
        models, name = self._models, self.name
        if name in models.choices.leave_out:
            return (Lack(f"`leave_out` names {name}"),)
        if models.selection is not None and name not in models.selection.models:
            return (Lack("a rehearsal makes another model of its kind"),)
        if self.imported:
            return ()
        recipe = self.recipe
        lacks = models.cohort_lacks(recipe.cohort) if recipe.cohort else []
        if recipe.corpora:
            lacks += models.texts.lacks(recipe.corpora)
        if recipe.vocabulary is not None:
            lacks += models.texts.lacks(models.texts.recipes[recipe.vocabulary].documents)
        before = [*recipe.parents.values(), recipe.shuffled_twins]
        lacks += [lack for name in before if name is not None for lack in models[name].lacks]
        if self.selecting_cohort is not None:
            lacks += models.cohort_lacks(self.selecting_cohort)
        if recipe.truth and not models.knows_findings(recipe.cohort):
            lacks.append(TRUTH)
        shares = recipe.scales.get(models.choices.scale, ModelScale()).shares
        if shares is not None and recipe.share not in shares:
            scale = f"models of this share of the pairs at scale {models.choices.scale}"
            lacks.append(Lack(scale, ("scale: paper",)))
        if recipe.weights is None:
            return distinct(lacks)
        if recipe.cohort is None:  # it is nothing but published weights
            return (self.weights_lack,)
        return distinct(lack.or_by(*self.weights_lack.lines) for lack in lacks)

    @property
    def weights_lack(self) -> Lack:
        """What is lacking where published weights do not stand for it."""
        absent = self._models.choices.weights.get(self.name)
        place = self.recipe.weights_name if absent is None else absent.path or absent.image
        line = f"weights: {{{self.name}: {place}}}  # {self.recipe.weights_from}"
        return Lack(f"weights of {self.name}", (line,))

    # --- what it is made from -----------------------------------------------------------------

    @property
    def seeds(self) -> list[int]:
        """The seeds it is trained with; there is one of what is not trained.

        Those of its own paper, whoever uses it, so that it is the same models in every run. A user
        with more seeds starts the others from the first (`parents_at`).
        """
        recipe, values = self.recipe, self._models.choices
        shared = recipe.seeds == "shared"
        if shared and not recipe.kind.learns and recipe.image is not None:
            return self._models[recipe.image].seeds  # whose weights it has
        single = recipe.seeds == "once" or (shared and values.shared_models == "once")
        runs, seeds = values.runs.get(paper_of(self.name)), values.seeds
        if runs is not None or seeds is None:
            runs = runs or recipe.scales.get(values.scale, ModelScale()).runs
            seeds = list(range(runs or self._models.library.runs(self.name, values.scale)))
        return seeds[:1] if single or self.imported else list(seeds)

    @property
    def parents(self) -> dict[str, str]:
        """The models it is made from, by the option that takes each: none if it is imported."""
        same, parents = self._models.same, self.recipe.parents
        return {} if self.imported else {k: same.get(n, n) for k, n in parents.items()}

    def parents_at(self, seed: int) -> dict[str, tuple[str, int]]:
        """(model, seed) of each model it is made from, by the option that takes it."""
        parents = {}
        for option, parent in self.parents.items():
            seeds = self._models[parent].seeds
            parents[option] = parent, seed if seed in seeds else seeds[0]
        return parents

    @property
    def ancestors(self) -> list[str]:
        """All models that it is made from, and itself, first the first to be trained.

        The model that curates what it is trained on is one of them.
        """
        parents = list(self.parents.values())
        if not self.imported:
            parents += self._models.cohorts.curators(self.recipe.cohort)
        before = [name for parent in parents for name in self._models[parent].ancestors]
        return list(dict.fromkeys([*before, self.name]))

    @property
    def stand_ins(self) -> str:
        """Of what weights it, or a model that it is made from, is a stand-in, in words."""
        ancestors = [self._models[name] for name in self.ancestors]
        names = [each.recipe.stand_in for each in ancestors if not each.imported]
        return " and ".join(dict.fromkeys(name for name in names if name is not None))

    @property
    def selecting_cohort(self) -> str | None:
        """The cohort whose score chooses its weights, if it is trained here by a score."""
        task = None if self.imported else self.recipe.selection
        return None if task is None else self._models.library.tasks[task].cohort

    # --- the texts of a text model ------------------------------------------------------------

    @property
    def vocabulary(self) -> str:
        """Its vocabulary: its own, or that of the model it starts from."""
        # A recipe of a text model has one of the two.
        return self.recipe.vocabulary or self._models[self.recipe.start or ""].vocabulary

    @property
    def vocabulary_model(self) -> str | None:
        """The imported model whose vocabulary it has, if it goes back to one."""
        if self.imported:
            return self.name
        start = self.recipe.start
        return None if start is None else self._models[start].vocabulary_model

    @property
    def corpora(self) -> list[str]:
        """The data sets whose packed documents it is trained on."""
        return self._models.data.places(self.recipe.corpora)


class Models(dict[str, ResolvedModel]):
    """The models of the chosen papers and those they use, by names in full."""

    def __init__(
        self,
        values: Values,
        library: Library,
        data: Datasets,
        cohorts: Cohorts,
        texts: Texts,
        selection: Selection | None = None,
    ) -> None:
        self.choices, self.library, self.data, self.selection = values, library, data, selection
        #: Published weights that are there, by model.
        self.weights = {
            name: weights
            for name, weights in values.weights.items()
            if name in library.models and not weights.is_absent
        }
        self.cohorts, self.texts = cohorts, texts
        super().__init__(
            (name, ResolvedModel(name, recipe.at(values.scale), self))
            for name, recipe in library.models.items()
        )

    def __missing__(self, name: str) -> ResolvedModel:
        raise InputError(f"model: {unknown(name, self)}")

    @cached_property
    def same(self) -> dict[str, str]:
        """By the name of a model that of its paper's model whose training is the same.

        Its settings do the same, and all that it is made from is the same. What a figure or a
        curation names is trained under its own name.
        """
        figures = [
            figure.results(paper.tables)
            for paper in self.library.chosen.values()
            for figure in paper.figures.values()
            if not isinstance(figure, CurveFigure | BarsFigure)
        ]
        alone = {name for results in figures for _, name in results}
        alone |= {*self.cohorts.curators(*self.library.cohorts)}
        same: dict[str, str] = {}
        first: dict[str, str] = {}
        for name, model in self.items():  # what it is made from comes before it
            if model.trained and model.trainable:
                parents = {option: same.get(n, n) for option, n in model.recipe.parents.items()}
                made_from = model.recipe.model_dump(mode="json", include=MADE_FROM) | parents
                key = [paper_of(name), made_from, model.geometry, model.seeds]
                stands = first.setdefault(fingerprint([*key, model.settings.effect()]), name)
                if name != stands and name not in alone:
                    same[name] = stands
        return same

    @cached_property
    def stand_ins(self) -> dict[str, str]:
        """The weights of which a model of this run, or its vocabulary, has stand-ins, by name."""
        models = [model for model in self.values() if model.stand_ins and model.trainable]
        vocabularies = {
            short_name(model.recipe.vocabulary): model.stand_ins
            for model in models
            if model.recipe.stand_in is not None and model.recipe.vocabulary is not None
        }
        return vocabularies | {model.name: model.stand_ins for model in models}

    def seeds_of(self, row: str) -> list[int]:
        """The seeds of a row of a table: of what is no model of ours there is one."""
        return self[row].seeds if row in self else [0]

    def cohort_lacks(self, name: str) -> list[Lack]:
        """What this run lacks of a cohort's data, and of the model that curates it."""
        curation = self.cohorts.curation(name)
        if curation is None:
            return self.cohorts.lacks(name)
        return [*self.cohorts.lacks(curation.candidates), *self[curation.model].lacks]

    def knows_states(self, cohort: str | None) -> bool:
        """True if the synthetic hospital has written down the states behind a cohort's reports."""
        if cohort is None or not self.cohorts.drawn(cohort):
            return False
        sets = self.cohorts[cohort].of_one_set
        return [self.data.layout(each.dataset).name for each in sets] == ["mimic_cxr"]

    def read_twice(self, cohort: str | None) -> bool:
        """True if a second radiologist has read some of a cohort."""
        sets = () if cohort is None else self.cohorts[cohort].of_one_set
        return any("second_readings" in self.data.layout(each.dataset).holds for each in sets)

    def knows_findings(self, cohort: str | None) -> bool:
        """True if it has also written down their sentences and boxes."""
        hospital = self.choices.synthetic_hospital
        return hospital is not None and hospital.finding_truth and self.knows_states(cohort)


#: Of what only a synthetic hospital knows.
TRUTH = Lack("a truth that nobody publishes; the synthetic hospital knows it")
#: Of a row that answers by labels which people have written.
NO_CEILING = Lack(
    "a ceiling: real data have none, as what people wrote is no truth that must be met"
)


def geometry_name(geometry: str | None, key: Key) -> str | None:
    """A geometry in the one spelling that names its folder."""
    try:
        return geometry and str(Geometry.parse(str(geometry)))
    except InputError as error:
        raise WrongKey(key, str(error)) from None
