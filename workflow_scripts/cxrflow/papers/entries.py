"""The entries of a paper's YAML: ``extends`` and ``vary`` resolved, and where a value is written.

An entry that ``extends`` another of its kind is laid over it, mappings key by key at any depth; a
mapping with ``extends: null`` replaces the one below it. Rows, columns and notes of a table come
after those of the table it extends. A scale may extend another scale of its entry, and follows it:
what an entry changes in ``demo`` reaches a ``study`` that extends ``demo``. A model with ``shares``
of the training pairs stands for a model more a share.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from cxr_files.errors import InputError
from cxr_files.reading import dotted
from cxrflow.names import name_of_share
from cxrflow.papers.variants import VARY, Levels, Variant, levels_of, names_alone, variants

KINDS = ("cohorts", "vocabularies", "models", "external", "tasks", "tables")
EXTENDS = "extends"
SCALES = "scales"
ORDERINGS = "orderings"
SHARES = "shares"
APPENDED = ("rows", "columns", "notes")  # of a table that extends another

Key = tuple[str | int, ...]


class Overlay(NamedTuple):
    """Values that are laid over others, and the key under which they are written."""

    values: Mapping[str, Any]
    key: tuple[str, ...]
    entries: Optional["Entries"] = None  # of the paper's file; None: written in the configuration
    # Of rows and columns, some of which vary: the place of each in the file.
    places: Mapping[str, list[int]] = {}


#: An entry of another paper as an overlay, by kind, paper and name; None if there is none.
ForeignEntry = Callable[[str, str, str], Overlay | None]


class Entries:
    """The cohorts, vocabularies, models, tasks and tables of a paper's file."""

    def __init__(self, file: Path, raw: Mapping[str, Any], foreign_entry: ForeignEntry) -> None:
        self.file, self._foreign_entry = file, foreign_entry
        self._raw: dict[str, dict[str, Any]] = {
            kind: raw[kind] for kind in KINDS if isinstance(raw.get(kind), dict)
        }
        #: The contents of the file with resolved entries. An entry that is no mapping stays as it
        #: is, for the paper's validation to refuse.
        self.values = dict(raw)
        self._claims: list[int] = []  # of each claim after ``vary`` its place in the file
        if isinstance(raw.get(ORDERINGS), list):
            numbered = list(self._list_variants((ORDERINGS,), raw[ORDERINGS]))
            self.values[ORDERINGS] = [claim for _, claim in numbered]
            self._claims = [index for index, _ in numbered]
        # By kind and name: the overlays of an entry alone, and below them those it extends.
        self._overlays: dict[str, dict[str, list[Overlay]]] = {}
        self._chains: dict[str, dict[str, list[Overlay]]] = {}
        for kind, raw_entries in self._raw.items():
            overlays: dict[str, list[Overlay]] = {}
            for name, entry in raw_entries.items():
                if isinstance(entry, dict):
                    self._add_variants(overlays, kind, name, entry)
            self._overlays[kind] = overlays
            self._chains[kind] = {name: self._chain(kind, name) for name in overlays}
            if kind == "models":
                self._add_shares()
            self.values[kind] = {
                **{name: self._resolved(kind, name) for name in overlays},
                **{name: raw for name, raw in raw_entries.items() if not isinstance(raw, dict)},
            }

    # --- vary ---------------------------------------------------------------------------------

    def _add_variants(
        self, overlays: dict[str, list[Overlay]], kind: str, name: str, entry: dict[str, Any]
    ) -> None:
        """Add the overlays of an entry, by the name of each variant."""
        levels = self._levels(kind, name)
        for variant in variants(name, entry, levels) if levels else [Variant(name, entry, {})]:
            if variant.name in overlays:
                raise self._error((kind, name), f"'{variant.name}' stands more than once")
            values, places = variant.values, {}
            for key in ("rows", "columns") if kind == "tables" else ():
                if isinstance(values.get(key), list):
                    numbered = list(self._list_variants((kind, name, key), values[key]))
                    values = values | {key: [row for _, row in numbered]}
                    places[key] = [index for index, _ in numbered]
            overlays[variant.name] = [
                Overlay(values, (kind, name), self, places),
                *(Overlay(v, (kind, name, *key), self) for key, v in variant.overlays.items()),
            ]

    def _list_variants(self, key: Key, rows: list[Any]) -> Iterator[tuple[int, Any]]:
        """Rows, columns or claims after ``vary``, each with its index in the file."""
        for index, row in enumerate(rows):
            if isinstance(row, dict) and VARY in row:
                for variant in variants("", row, self._read_vary((*key, index, VARY), row[VARY])):
                    yield index, _laid([variant.values, *variant.overlays.values()])
            else:
                yield index, row

    def _levels(self, kind: str, name: str, *chain: str) -> Levels:
        """The variables of an entry: its own, and those of the entry it extends."""
        entry = self._raw[kind].get(name)
        if not isinstance(entry, dict) or name in chain:  # a circle is refused in _chain
            return {}
        base = entry.get(EXTENDS)
        inherited = self._levels(kind, base, *chain, name) if isinstance(base, str) else {}
        levels = self._read_vary((kind, name, VARY), entry[VARY]) if VARY in entry else {}
        return names_alone(inherited) | levels

    def _read_vary(self, key: Key, vary: Any) -> Levels:
        try:
            return levels_of(vary)
        except ValueError as error:
            raise self._error(key, f"is {vary!r}; {error}", joint=" ") from None

    # --- shares -------------------------------------------------------------------------------

    def _add_shares(self) -> None:
        """Add to each model with ``shares`` those that are trained on a share of its pairs."""
        models, chains = self._overlays["models"], self._chains["models"]
        for name in [*models]:
            shares = _laid([overlay.values for overlay in chains[name]]).get(SHARES)
            below = [s for s in shares if _is_share(s)] if isinstance(shares, list) else []
            for share in below:  # others are refused by the recipe's validation
                of_share = name_of_share(name, share)
                if of_share in models:
                    raise self._error(
                        ("models", name, SHARES), f"'{of_share}' stands more than once"
                    )
                values = {SHARES: None, "settings": {"training_share": share / 100}}
                models[of_share] = [Overlay(values, ("models", of_share), self)]
                chains[of_share] = [*chains[name], *models[of_share]]

    # --- extends ------------------------------------------------------------------------------

    def _chain(self, kind: str, name: str, *above: str) -> list[Overlay]:
        """All overlays of an entry, those of the entry it extends first."""
        overlays = self._overlays[kind][name]
        source = _laid([overlay.values for overlay in overlays]).get(EXTENDS)
        if source is None:
            return overlays
        key = (*overlays[0].key, EXTENDS)
        paper, _, base = str(source).rpartition("/")
        if not paper and base in self._overlays[kind]:
            names = (*above, name)
            if base in names:
                circle = " -> ".join((*names[names.index(base) :], base))
                raise self._error(key, f"entries extend each other: {circle}")
            return [*self._chain(kind, base, *names), *overlays]
        foreign = self._foreign_entry(kind, paper, base) if paper else None
        if foreign is None:
            expected = f"expected <name> of this file's {kind} or <paper>/<name> of another's"
            raise self._error(key, f"is '{source}'; {expected}", joint=" ")
        return [foreign, *overlays]

    def _resolved(self, kind: str, name: str) -> dict[str, Any]:
        """An entry as one mapping."""
        values: dict[str, Any] = {}
        for overlay in self._chains[kind][name]:
            lists = {}
            for key in APPENDED if kind == "tables" else ():
                below, above = values.get(key), overlay.values.get(key)
                if isinstance(below, list) and isinstance(above, list):
                    lists[key] = [*below, *above]
            values = deep_overlay(values, {**overlay.values, **lists})
        scales = values.get(SCALES)
        if isinstance(scales, dict):
            values[SCALES] = {scale: self._scale(kind, name, scales, scale) for scale in scales}
        return {key: without_ends(value) for key, value in values.items() if key != EXTENDS}

    def _scale(self, kind: str, name: str, scales: dict[str, Any], *chain: str) -> Any:
        """The last scale of a chain, laid over the scale that it extends."""
        sizes = scales[chain[-1]]
        base = sizes.get(EXTENDS) if isinstance(sizes, dict) else None
        if base is None:
            return sizes
        _, key = self.place((kind, name, SCALES, chain[-1], EXTENDS))
        if base in chain:
            circle = " -> ".join((*chain[chain.index(base) :], base))
            raise self._error(key, f"scales extend each other: {circle}")
        if not isinstance(base, str) or base not in scales:
            names = ", ".join(sorted({*scales} - {chain[-1]})) or "no other"
            raise self._error(key, f"is '{base}'; its scales are {names}", joint=" ")
        sizes_above = {key: value for key, value in sizes.items() if key != EXTENDS}
        below = self._scale(kind, name, scales, *chain, base)
        if not isinstance(below, Mapping):
            message = f"is '{base}', which is no mapping of sizes but {below!r:.40}"
            raise self._error(key, message, joint=" ")
        return deep_overlay(below, sizes_above)

    def as_base(self, kind: str, name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The ``values`` of an entry as another paper extends it: scales follow those they extend.

        Of each scale only what it says itself remains, and the scale that it extends.
        """
        written = _laid([overlay.values for overlay in self._chains[kind][name]]).get(SCALES)
        if SCALES not in values or not isinstance(written, Mapping):
            return values
        scales = {scale: _own(sizes, written.get(scale)) for scale, sizes in values[SCALES].items()}
        return {**values, SCALES: scales}

    # --- errors -------------------------------------------------------------------------------

    def _error(self, key: Key, message: str, joint: str = ": ") -> InputError:
        return InputError(f"{self.file}: key '{dotted(key)}'{joint}{message}")

    def place(self, key: Key) -> tuple[Path, Key]:
        """Return the file and the key where the value of a resolved ``key`` is written."""
        chain = self._chains.get(str(key[0]), {}).get(str(key[1])) if len(key) > 1 else None
        if key[:1] == (ORDERINGS,) and len(key) > 1 and self._claims:
            return self.file, (ORDERINGS, self._claims[int(key[1])], *key[2:])
        if chain is None:
            return self.file, key
        below = key[2:]
        overlay, depth = _deepest(chain, below)
        if below[:1] == (SCALES,) and depth < len(below):
            scales: Any = _laid([each.values for each in chain]).get(SCALES)
            sizes = scales.get(below[1]) if isinstance(scales, Mapping) else None
            base = sizes.get(EXTENDS) if isinstance(sizes, Mapping) else None
            extended: Key = (SCALES, str(base), *below[2:])
            if base is not None and _deepest(chain, extended)[1] > depth:
                return self.place((*key[:2], *extended))
        if len(below) > 1 and below[0] in APPENDED and isinstance(below[1], int):
            overlay, below = _list_place(chain, str(below[0]), below[1], below[2:])
        written = (*overlay.key, *below)
        if overlay.entries is None or overlay.entries is self:
            return self.file, written
        return overlay.entries.place(written)


def _is_share(value: Any) -> bool:
    """True of per cents below 100."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value < 100


def _deepest(chain: list[Overlay], key: Key) -> tuple[Overlay, int]:
    """The last overlay with the most of ``key``'s parts, and their number."""
    depths = [defined_depth(overlay.values, key) for overlay in chain]
    last = max(range(len(chain)), key=lambda index: (depths[index], index))
    return chain[last], depths[last]


def _list_place(chain: list[Overlay], name: str, index: int, below: Key) -> tuple[Overlay, Key]:
    """The overlay that holds an entry of an appended list, and the key of the entry there."""
    for overlay in chain:
        entries = overlay.values.get(name)
        if not isinstance(entries, list):
            continue
        if index < len(entries):
            places = overlay.places.get(name) or range(len(entries))
            return overlay, (name, places[index], *below)
        index -= len(entries)
    return chain[-1], (name, index, *below)


def defined_depth(values: Any, key: Key) -> int:
    """Return how many of the first parts of ``key`` exist in nested values."""
    for depth, step in enumerate(key):
        try:
            values = values[step]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(key)


def deep_overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay ``above`` over ``below``, key by key; a mapping with ``extends: null`` replaces."""
    if EXTENDS in above and above[EXTENDS] is None:
        return {key: value for key, value in above.items() if key != EXTENDS}
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            value = deep_overlay(old, value)
        merged[key] = value
    return merged


def _own(resolved: Any, written: Any) -> Any:
    """The part of resolved values that is ``written``, with its ``extends``."""
    if not isinstance(resolved, Mapping) or not isinstance(written, Mapping):
        return resolved
    own_values = {key: _own(resolved[key], written[key]) for key in written if key in resolved}
    return own_values | ({EXTENDS: written[EXTENDS]} if EXTENDS in written else {})


def _laid(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Lay each mapping over those before it."""
    values: dict[str, Any] = {}
    for mapping in mappings:
        values = deep_overlay(values, mapping)
    return values


def without_ends(value: Any) -> Any:
    """Nested values without the ``extends: null`` of mappings that had nothing below them."""
    if isinstance(value, Mapping):
        return {k: without_ends(v) for k, v in value.items() if (k, v) != (EXTENDS, None)}
    return [without_ends(item) for item in value] if isinstance(value, list) else value
