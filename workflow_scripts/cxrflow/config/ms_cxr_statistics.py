"""What Table C.1 is counted in, and whether the demographics fit the patients (BioViL App. C)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cxrflow.config.schema import Config


def statistics_datasets(config: "Config") -> list[str]:
    """MS-CXR, the data set with all studies and their dates, and demographics if there are any.

    Dates stand in a table of MIMIC-CXR-JPG, where this run reads that data set anyway, and else in
    the header of every image.
    """
    if config.roles.grounding is None:
        return []
    annotated = config.cohorts[config.roles.grounding].dataset
    holder = config.holder(config.roles.grounding)
    read = [given.holder for given in config.label_comparisons() if given.holder is not None]
    read += [config.holder(name) for name in config.cohorts_in_use()]
    tables = (
        name
        for name in dict.fromkeys(read)
        if config.datasets[name].layout == "mimic_cxr_jpg"
        and config.datasets[name].synthetic == config.datasets[holder].synthetic
    )
    named = [annotated, next(tables, holder), config.roles.demographics]
    return [name for name in named if name is not None]


def check_demographics_fit(config: "Config") -> None:
    """Demographics are MIMIC-IV's, and invented for invented patients only; else a ValueError."""
    name, grounding = config.roles.demographics, config.roles.grounding
    if name is None or grounding is None:
        return
    found, annotated = config.datasets[name], config.cohorts[grounding].dataset
    if found.layout != "mimic_iv":
        raise ValueError(
            f"roles.demographics: '{name}' has the layout {found.layout}; expected mimic_iv"
        )
    if found.synthetic != config.datasets[annotated].synthetic:
        kinds = ("real", "synthetic")
        raise ValueError(
            f"roles.demographics: '{name}' is {kinds[found.synthetic]}, the patients of "
            f"'{annotated}' are {kinds[not found.synthetic]}; expected both alike, or null"
        )
