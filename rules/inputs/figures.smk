"""What the rules of figures.smk read, and how it stands on their command lines."""


def figure(wildcards):
    """A figure of a paper."""
    return run.results[wildcards.paper].paper.figures[wildcards.figure]


def figures_by(rule):
    """The figures of a program, as a wildcard takes them behind their papers, which share names."""
    named = [
        rf"(?<=/{re.escape(paper)}/){re.escape(name)}"
        for paper, results in run.results.items()
        for name, figure in results.figures().items()
        if figure.RULE == rule
    ]
    return "|".join(sorted(named)) or one_of([])


def paper_figures(paper, extent):
    """The figures of a paper that rules of this run draw in this extent."""
    figures = run.results[paper].figures(extent).items()
    drawn = [(name, figure) for name, figure in figures if figure.RULE is not None]
    return [f"<results>/figures/{paper}/{name}.{figure.ENDING}" for name, figure in drawn]


def figure_inputs(wildcards):
    """What a figure reads, by the option of its program: of each result the first seed."""
    shown = run.results[wildcards.paper].shown_in(wildcards.figure)
    task = run.tasks[figure(wildcards).task]
    files = {"results": [metrics(name, model)[0] for name, model in shown]}
    if figure(wildcards).READS:
        files["cohort"] = cohort_table(task.cohort)
    for option in figure(wildcards).READS:
        files[option] = []
        for name, model in shown:
            seed, geometry = run.models[model].seeds[0], run.tasks[name].geometry(model)
            place = {
                "models": f"<results>/models/{model}/seed{seed}/run.json",
                "pixels": f"<results>/pixels/{task.cohort}/{geometry}/store.json",
                "features": f"<results>/features/{model}/seed{seed}/{task.cohort}/features.json",
            }
            files[option].append(place[option])
    return files


def figure_code(wildcards):
    """What draws it, and the trunks that are run."""
    shown = run.results[wildcards.paper].shown_in(wildcards.figure)
    runs = shown if "models" in figure(wildcards).READS else []
    trunks = {part for _, model in runs for part in run.models[model].parts}
    return [figure(wildcards).PROGRAM, *sorted(trunks)]


def figure_phrases(wildcards):
    """Whether phrases, which are report text, stand on a figure."""
    task = run.tasks[figure(wildcards).task]
    of_task = getattr(task.settings, "figure_phrases", False)
    shown = figure(wildcards).phrases(of_task, task.shows("text"))
    return "--phrases" if shown else "--no-phrases"


def figure_compared(wildcards):
    """The results that a figure shows with an interval over seeds and samples."""
    return run.tasks.of_several_seeds(run.results[wildcards.paper].shown_in(wildcards.figure))


def forecast_trainings(wildcards):
    """Of a curve that says what more pairs would give: which pairs each training has read."""
    if not getattr(figure(wildcards), "forecast", False):
        return []
    shown = run.results[wildcards.paper].shown_in(wildcards.figure)
    trained = [row for _, row in shown if row in run.models and run.models[row].trained]
    return model_runs(dict.fromkeys(trained))
