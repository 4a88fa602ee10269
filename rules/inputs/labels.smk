"""What the rules of labels.smk read, and how it stands on their command lines."""

GIVEN_LABELS = {(given.dataset, given.reference): given for given in run.label_comparisons()}


def given_labels(wildcards):
    """The given labels of a comparison."""
    return GIVEN_LABELS[wildcards.dataset, wildcards.reference]


def given_labels_files(wildcards):
    """The files that they are read from."""
    given = given_labels(wildcards)
    if given.holder is not None and (run.data.drawn(given.holder) or not given.file):
        return data_of(["reports"], given.holder)
    place = given_labels_place(wildcards)
    return [str(find_file(Path(), place) or place)]


def given_labels_place(wildcards):
    """The table of the given labels, or the folder whose index terms they are."""
    given = given_labels(wildcards)
    return given.file if given.holder is None else os.path.join(root(given.holder), given.file)


def label_agreements():
    """How our report labels agree with each of the given ones."""
    folder = "<results>/benchmarks/label_agreement"
    return [f"{folder}/{dataset}/{reference}/metrics.json" for dataset, reference in GIVEN_LABELS]
