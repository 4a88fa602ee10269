"""Settings of one kind of a thing: which kind, whose code, and code from outside of the package.

A kind is a module of a room of the package, or ``module:Class`` of a user's own.
"""

import inspect
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Final, get_args

from pydantic import (
    BaseModel,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import (
    CoreSchema,
    PydanticCustomError,
    PydanticSerializationError,
    core_schema,
)

from cxr_files.settings import RECORD, Settings, SettingsT, shown

#: Modules outside of the package, separated by commas, that a model folder may name as its code.
TRUSTED: Final = "CXRFLOW_MODULES"
#: In a rehearsal alone: how much of the data its jobs read, as JSON (:mod:`cxrflow.data.slices`).
REHEARSAL: Final = "CXRFLOW_REHEARSAL"
#: What the names of data sets that a rehearsal has cut begin with.
MARK: Final = "rehearsal of "


@dataclass(frozen=True)
class Reads:
    """Marks a field with whose ``value`` files of the package are read: ``files``, a pattern."""

    value: Any
    files: str


class Kind(Settings):
    """Settings of one kind of a thing, whose code is the module ``<room>.<kind>``.

    Code outside of the package is ``module:Class``, of a module that Python finds in the folder of
    the run or where else it looks. The class is of the ``base`` that its kinds have, and says by
    its annotation ``settings: ...`` which class of settings it takes, a subclass of the one that
    says ``outside``.
    """

    room: ClassVar[str]
    outside: ClassVar[bool] = False  # True in the base of kinds that may be outside of the package
    base: ClassVar[str]  # of their code, as module:Class; the configuration does not import it
    kind: str

    @property
    def module(self) -> str:
        """The module of its code, below the package; or ``module:Class``."""
        return self.kind if is_outside(self.kind) else f"{self.room}.{self.kind}"

    def code(self, name: str) -> Any:
        """Return the class called ``name`` in that module, imported now."""
        if is_outside(self.kind):
            return outside_class(self.kind, self.base)
        return getattr(import_module(f"cxrflow.{self.module}"), name)


def is_outside(kind: Any) -> bool:
    """True for ``module:Class``, code outside of the package."""
    return isinstance(kind, str) and ":" in kind


def outside_class(kind: str, base: str) -> Any:
    """Import the class that ``module:Class`` names, a subclass of ``base``, which is named alike.

    Raises:
        ValueError: there is no such module or class, it has another base, or lacks a method.
    """
    module, _, name = kind.partition(":")
    if not all(word.isidentifier() for word in (*module.split("."), name)):
        raise ValueError(f"{kind!r}: expected module:Class")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # as `python -m` does; a console script does not
    try:
        cls = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        message = f"there is no module {error.name} in {os.getcwd()} or on PYTHONPATH"
        raise ValueError(f"{kind!r}: {message}") from None
    if not isinstance(cls, type):
        raise ValueError(f"{kind!r}: the module {module} has no class {name}")
    if base not in {f"{above.__module__}:{above.__qualname__}" for above in cls.__mro__}:
        raise ValueError(f"{kind!r}: expected a subclass of {base.replace(':', '.')}")
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(vars(cls)["__abstractmethods__"]))
        raise ValueError(f"{kind!r}: the class lacks {missing}")
    return cls


def require_trusted(kind: str) -> None:
    """Refuse code outside of the package that a file, not the user, names.

    Raises:
        ValueError: its module is neither imported yet nor named in :data:`TRUSTED`.
    """
    module = kind.partition(":")[0]
    if module not in sys.modules and module not in os.environ.get(TRUSTED, "").split(","):
        raise ValueError(
            f"{kind!r} is code outside of cxrflow; if you trust it, import {module} first or name "
            f"it in the environment variable {TRUSTED}"
        )


def outside_settings(cls: Any, base: type[SettingsT]) -> type[SettingsT]:
    """The settings that a class outside of the package takes, by its annotation ``settings: ...``.

    Raises:
        ValueError: it has none, or of another class than ``base``.
    """
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        settings = inspect.get_annotations(cls, eval_str=True).get("settings")
    except NameError as error:
        raise ValueError(f"{name!r}: an annotation cannot be read ({error})") from None
    if not (isinstance(settings, type) and issubclass(settings, base)):
        raise ValueError(f"{name!r}: expected an annotation `settings:` of a {base.__name__}")
    return settings


def require_kept(settings: Settings) -> None:
    """Refuse settings of code outside of the package that are not read back as they are written.

    Raises:
        ValueError: what a file would hold of them gives no settings, or others.
    """
    name = type(settings).__name__
    try:
        written = (settings.record(), settings.model_dump(mode="json"))
        kept = [type(settings).model_validate(v, context=RECORD) for v in written]
    except (ValidationError, PydanticSerializationError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{name} cannot be read back from what is written of it: {reason}"
        ) from None
    for field in type(settings).model_fields:
        if any(getattr(again, field) != getattr(settings, field) for again in kept):
            raise ValueError(
                f"{name}.{field} is {shown(getattr(settings, field))}, but is read back as "
                f"{shown(getattr(kept[-1], field))}; a model of it could not be loaded"
            )


@dataclass(frozen=True)
class OneKind:
    """Marks a union of kinds; ``default`` is the kind of values that do not state theirs.

    Unlike in pydantic's tagged unions, errors name the key as it is written, without the kind. Null
    in a field that only other kinds have is ignored, so that an overlay can change the kind. Of
    kinds that may be outside of the package it may mark the base alone: values that state no such
    kind are then a key that is not known.
    """

    default: str | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        classes = {cls.model_fields["kind"].default: cls for cls in get_args(source)}
        known = {"kinds": ", ".join(classes)}
        first = next(iter(classes.values()), source)
        outside = next((cls for cls in first.__mro__ if vars(cls).get("outside")), None)
        # The class of such settings is that of the value, which no union lists.
        as_it_is = core_schema.simple_ser_schema("any") if outside else None

        def choose(values: Any, _: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
            if isinstance(values, (*classes.values(), *([outside] if outside else []))):
                return values
            if not classes and not (isinstance(values, Mapping) and is_outside(values.get("kind"))):
                raise PydanticCustomError("extra_forbidden", "unknown key")
            if not isinstance(values, Mapping):
                raise PydanticCustomError("kind", "expected the keys of one of {kinds}", known)
            kind = values.get("kind", self.default)
            if outside is not None and is_outside(kind):
                try:
                    if info.context == RECORD:
                        require_trusted(kind)
                    cls = outside_settings(outside_class(kind, outside.base), outside)
                except ValueError as error:
                    raise PydanticCustomError("kind", "kind {m}", {"m": str(error)}) from None
            elif kind in classes:
                cls = classes[kind]
            else:
                message = f"kind is {kind!r}; expected {{kinds}}"
                raise PydanticCustomError("kind", message, known)
            chosen = {n: v for n, v in values.items() if v is not None or n in cls.model_fields}
            settings = cls.model_validate(chosen, context=info.context)
            if is_outside(kind) and info.context != RECORD:
                require_kept(settings)
            return settings

        return core_schema.with_info_wrap_validator_function(
            choose, handler(source), serialization=as_it_is
        )


def modules_of(settings: BaseModel) -> list[str]:
    """The modules of the kinds in settings, at any depth, and the files that values read.

    No import leads to them. Files are patterns, as :mod:`cxrflow.programs.source_code` takes them.
    """
    modules = {settings.module} if isinstance(settings, Kind) else set()
    fields = type(settings).model_fields
    for name, value in settings:
        marks = fields[name].metadata if name in fields else []
        modules |= {m.files for m in marks if isinstance(m, Reads) and m.value == value}
        if isinstance(value, BaseModel):
            modules |= set(modules_of(value))
    return sorted(modules)
