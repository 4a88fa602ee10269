"""Self-contained pages that commands write, from the templates beside them."""

from typing import Any

import jinja2


def rendered(template: str, *places: str, **values: Any) -> str:
    """Fill in a template; ``places``: packages, or folders in one, of it and what it includes."""
    folders = [place.partition("/") for place in places]
    loaders = [jinja2.PackageLoader(package, folder) for package, _, folder in folders]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)
