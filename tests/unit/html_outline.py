"""The elements of an HTML text, for tests of what the pages and tables hold."""

from html.parser import HTMLParser


class Outline(HTMLParser):
    """Elements with their attributes, each closed in its turn; ``open``: those left open."""

    VOID = {"meta", "img", "br", "input", "link"}

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of each element of this kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]
