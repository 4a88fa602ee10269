"""Pictures that are scored in one data set and learnt from in another.

Ids of two data sets cannot be compared, pictures can (:mod:`cxrflow.images.copies`). A run ends
where copies of real images would be learnt from; the page says so of drawn ones as well.
"""

from itertools import chain
from typing import Any

from cxr_files.drops import EXAMPLES
from cxrflow.config.held_out import learners
from cxrflow.images.copies import compared_copies
from cxrflow.show.page.inputs import RunFolder

NAME = "pictures of other data sets"


def learnt_pictures(run: RunFolder, cohort: str, names: bool) -> dict[str, Any] | None:
    """Check that no image that is scored is one that a model has learnt from elsewhere.

    ``names``: ids may be shown. None where there are no stores to compare.
    """
    compared, shared = [], []
    for learnt, models in learners(run.config, cohort, chain(*run.scored.values())).items():
        found_copies = compared_copies(run.root, cohort, learnt)
        if found_copies is None:
            continue
        compared.append(learnt)
        if found_copies:
            examples = ", ".join(pair.scored for pair in found_copies[:EXAMPLES])
            shared.append(
                f"{len(found_copies)} image(s) are copies of images of {learnt}"
                f"{f' ({examples})' if names else ''}, from which {', '.join(models)} learnt"
            )
    if not compared:
        return None
    detail = "; ".join(shared) or f"none of the images that are scored is in {', '.join(compared)}"
    return {"name": NAME, "passed": not shared, "detail": detail}
