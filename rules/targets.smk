"""What can be asked for by name: one paper, labels, controls, released weights."""


include: "inputs/targets.smk"


for paper in run.results:

    rule:
        name:
            paper
        input:
            lambda wildcards, paper=paper: requested({paper: "all"}),
            paper_figures(paper, "all"),
            model_runs(run.needs((paper, "all")).models),
            f"{REPORT}/{paper}.html",


rule labels:
    """How well our report labels agree with given ones; needs no model."""
    input:
        label_agreements(),


rule controls:
    """Models that must fail, such as one trained on shuffled pairs, in every task they can do."""
    input:
        [
            path
            for results in run.results.values()
            for model in results.controls
            for task in run.tasks.of_model(model)
            for path in metrics(task, model)
        ],


rule released:
    """Published weights in every published cell that needs no training, each with a verdict."""
    input:
        "<results>/released/certificate.html",
