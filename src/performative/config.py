"""World files: worlds and learners in TOML, for `performative simulate`.

A table names a factory by its `kind` (or a ready-made world by `ready`); the other keys are that
factory's arguments. What may be written is read off the factories' signatures, so that a new one
can be used in a file at once. A mistake is named with its place, and all are named together.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import os
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pydantic

from performative import _checks, learners, worlds
from performative.learners.learner import Learner
from performative.simulation.engine import check_starts, make_ready
from performative.simulation.run import TARGETS
from performative.world import domains, drifts, losses, maps, mixing, responses
from performative.world.distributions import Distribution, Empirical, Gaussian, Mixture
from performative.world.domains import Domain
from performative.world.drifts import Drift
from performative.world.losses import Loss
from performative.world.maps import Map
from performative.world.mixing import Mixing
from performative.world.responses import Response
from performative.world.world import World

FAMILIES: dict[type, Any] = {
    Response: responses,
    Drift: drifts,
    Mixing: mixing,
    Loss: losses,
    Domain: domains,
    Map: maps,
    Learner: learners,
    World: worlds,
    Distribution: {"gaussian": Gaussian, "empirical": Empirical, "mixture": Mixture},
}
"""Where the factories of each kind of piece are."""

TABLES = (".csv", ".txt", ".npy")
"""Files that can stand for an array."""

EXAMPLE = """\
# Worlds and learners for `performative simulate`: every learner plays in every world.

rounds = 500             # T, of all worlds
runs = 5                 # repetitions of every pair
seed = 0                 # of the runs; worlds have seeds of their own
against = ["stable"]     # regret against "stable" points, "optimal" points or both

# A ready-made world: `ready` is its name in pp.worlds, the other keys are its arguments.
[worlds.credit]
ready = "credit"
drift = "random"
b = 1.0

# A world from pieces: `kind` is a name in pp.responses, pp.drifts, ..., the other keys are its
# arguments. Rows of your own data come from a file beside this one:
# base = { kind = "empirical", rows = "data.csv" }
[worlds.mine]
loss = { kind = "squared" }
domain = { kind = "box", lower = -5, upper = 5 }
mixing = { kind = "polynomial", b = 0.5 }

[worlds.mine.response]
kind = "location"
matrix = 0.3
base = { kind = "gaussian", mean = [0.5, -0.5], cov = 0.25 }

[worlds.mine.drift]
kind = "iid_ball"
cov = 0.25
radius = 1.0
seed = 1

[learners.RRM]
kind = "rrm"

[learners."RRM, 100 rows"]
kind = "rrm"
rows = 100
"""
"""What `performative init` writes."""


class ConfigError(ValueError):
    """What is wrong with a world file: one line for each mistake."""


class Experiment(NamedTuple):
    """What a world file asks for."""

    worlds: dict[str, World]
    learners: dict[str, Learner]
    runs: int
    seed: int
    start: Any
    against: tuple[str, ...]


class _File(pydantic.BaseModel):
    """The top level of a world file."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    worlds: dict[str, dict[str, Any]] = pydantic.Field(min_length=1)
    learners: dict[str, dict[str, Any]] = pydantic.Field(min_length=1)
    rounds: int | None = pydantic.Field(default=None, ge=1)
    runs: int = pydantic.Field(default=1, ge=1)
    seed: int = pydantic.Field(default=0, ge=0)
    start: Any = None
    against: list[str] = pydantic.Field(default=["stable"], min_length=1)


def read(path: str | os.PathLike, **instead: Any) -> Experiment:
    """The worlds and learners of a file, built; all mistakes in one `ConfigError`.

    Args:
        path: of the file.
        instead: top-level values to use instead of the file's, where they are not None.
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; a world file is a TOML file.")
    if not path.exists():
        hint = _checks.did_you_mean(path.name, _names_beside(path))
        raise FileNotFoundError(f"{path}: there is no such file.{hint}")
    try:
        text = path.read_text(encoding="utf-8")
        return parse(text, path.parent, **instead)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}: line {line} is not UTF-8 text.") from None
    except ConfigError as error:
        lines = (f"{path}: {line}" for line in str(error).splitlines())
        raise ConfigError("\n".join(lines)) from None


def parse(text: str, folder: str | os.PathLike = ".", **instead: Any) -> Experiment:
    """The same from the file's text; data files are looked for in `folder`.

    >>> mine = parse('''
    ... rounds = 10
    ... [worlds.mine]
    ... response.kind = "location"
    ... response.matrix = 0.3
    ... response.base = { kind = "gaussian", mean = [1], cov = 1 }
    ... loss = { kind = "squared" }
    ... domain = { kind = "ball", radius = 5 }
    ... [learners.RRM]
    ... kind = "rrm"
    ... ''')
    >>> mine.worlds["mine"].rounds, mine.learners["RRM"].name
    (10, 'RRM')
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(text, str(error))) from None
    tables |= {key: value for key, value in instead.items() if value is not None}
    build = _Builder(Path(folder))
    top = build.validated(_File, tables, "")
    if top is None:
        build.look_at(tables)
        raise ConfigError("\n".join(build.mistakes))
    for i, name in enumerate(top["against"]):
        build.attempt(f"against[{i}]", _checks.choice, "target", name, TARGETS)
    found = {
        name: build.world(table, top["rounds"], f"worlds.{_key(name)}")
        for name, table in top["worlds"].items()
    }
    players = {
        name: build.piece(Learner, table, f"learners.{_key(name)}")
        for name, table in top["learners"].items()
    }
    lengths = {name: world.rounds for name, world in found.items() if isinstance(world, World)}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{count} in {_key(name)}" for name, count in lengths.items())
        build.mistakes.append(f"worlds: must have one number of rounds; got {listed}.")
    for name, world in found.items():
        if isinstance(world, World):
            place = f"worlds.{_key(name)}"
            starts = build.attempt(
                f"start, in {place}", check_starts, world, top["start"], top["runs"]
            )
            for label, learner in players.items() if starts is not None else ():
                if learner is not None:
                    where = f"learners.{_key(label)}, in {place}"
                    build.attempt(where, make_ready, world, learner, starts)
    if build.mistakes:
        raise ConfigError("\n".join(build.mistakes))
    against = tuple(dict.fromkeys(top["against"]))
    return Experiment(found, players, top["runs"], top["seed"], top["start"], against)


class _Builder:
    """Builds pieces from tables, and collects what is wrong with them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.mistakes: list[str] = []

    def world(self, table: dict[str, Any], rounds: int | None, place: str) -> Any:
        """A ready-made world, or one from pieces."""
        given = {"rounds": rounds, **table} if rounds is not None else table
        if "ready" in table:
            return self.piece(World, given, place, tag="ready")
        if "kind" in table:
            return self.wrong(
                f"{place}.kind",
                "a world has no kind; `ready` names a ready-made one, "
                "and one of your own has response, drift, mixing, loss and domain.",
            )
        known = set(inspect.signature(World.__init__).parameters)
        ready = {key for f in _kinds(World).values() for key in inspect.signature(f).parameters}
        strange = set(table) - known
        if strange and strange <= ready and not set(table) & (known - ready):
            return self.wrong(f"{place}.ready", f"must be given: {_listed(_kinds(World))}.")
        return self.call(World, given, place)

    def look_at(self, tables: dict[str, Any]) -> None:
        """Note the mistakes inside the tables of a file whose top level is wrong already."""
        for family, room in ((World, "worlds"), (Learner, "learners")):
            inside: Any = tables.get(room)
            for name, table in inside.items() if _is_piece(inside) else ():
                place = f"{room}.{_key(name)}"
                if _is_piece(table) and family is World:
                    self.world(table, 1, place)
                elif _is_piece(table):
                    self.piece(family, table, place)

    def piece(self, family: type, table: Any, place: str, tag: str = "kind") -> Any:
        """What one table stands for."""
        kinds = _kinds(family)
        if not isinstance(table, dict):
            names = _listed(kinds)
            return self.wrong(
                place, f"must be a table with a {tag}, one of {names}; got {_shown(table)}."
            )
        if tag not in table:
            near = next((key for key in table if _checks.nearest(key, [tag])), None)
            hint = f" Did you mean {tag!r} by {near!r}?" if near else ""
            return self.wrong(f"{place}.{tag}", f"must be given: {_listed(kinds)}.{hint}")
        kind = table[tag]
        if not isinstance(kind, str) or kind not in kinds:
            if isinstance(kind, str) and kind in _kinds(family, written=False):
                others = f"; in a file: {_listed(kinds)}" if kinds else ""
                return self.wrong(
                    f"{place}.{tag}",
                    f"{kind!r} needs a function and can be had from Python only{others}.",
                )
            what = "world" if family is World else tag
            hint = _hint(kind, kinds)
            return self.wrong(f"{place}.{tag}", f"unknown {what} {_shown(kind)}; {hint}")
        rest = {key: value for key, value in table.items() if key != tag}
        return self.call(kinds[kind], rest, place)

    def call(self, factory: Callable, table: dict[str, Any], place: str) -> Any:
        """The factory's result, each argument checked and built first."""
        before, hints = len(self.mistakes), _hints(factory)
        validated = self.validated(_model(factory), table, place)
        # Where a key is wrong, the tables beside it are looked at all the same.
        readable = validated or {k: v for k, v in table.items() if k in hints and _is_piece(v)}
        arguments = {
            name: self.argument(hints.get(name, Any), name, value, f"{place}.{name}")
            for name, value in readable.items()
            if name in table
        }
        if len(self.mistakes) > before:
            return None
        return self.attempt(place, factory, **arguments)

    def argument(self, hint: Any, name: str, value: Any, place: str) -> Any:
        """One argument: a piece, a list of pieces, an array from a file, or the value as it is."""
        family = _family(hint) or (_family(_world_pieces().get(name)) if _is_piece(value) else None)
        if family is not None:
            return self.piece(family, value, place)
        member = _member_family(hint)
        if member is not None:
            if not isinstance(value, list):
                return self.wrong(place, f"must be a list of tables; got {_shown(value)}.")
            return [self.piece(member, each, f"{place}[{i}]") for i, each in enumerate(value)]
        if isinstance(value, str) and os.PathLike in _parts(hint):
            return self.folder / value
        if isinstance(value, str) and hint is Any and Path(value).suffix.lower() in TABLES:
            return self.attempt(place, _array, self.folder / value)
        return value

    def validated(self, model: type[pydantic.BaseModel], table: Any, place: str) -> Any:
        """The table's values by name, or None and a mistake for each that is wrong."""
        try:
            return dict(model.model_validate(table))
        except pydantic.ValidationError as errors:
            for error in errors.errors(include_url=False):
                where = ".".join(
                    [part for part in (place, *map(_key, _without_branch(error["loc"]))) if part]
                )
                sentence = f"{where}: {_said(error, model)}"
                if sentence not in self.mistakes:
                    self.mistakes.append(sentence)
            return None

    def attempt(self, place: str, function: Callable, /, *args: Any, **kwargs: Any) -> Any:
        """The function's result; the library's own complaint is noted with its place."""
        try:
            return function(*args, **kwargs)
        except (ValueError, TypeError, OSError) as error:
            return self.wrong(place, " ".join(str(error).split()))

    def wrong(self, place: str, sentence: str) -> None:
        self.mistakes.append(f"{place}: {sentence}")


# What the factories' signatures say


@functools.cache
def _kinds(family: type, written: bool = True) -> Mapping[str, Callable]:
    """The factories of a family by name; `written` leaves out those that need a function."""
    room = FAMILIES[family]
    if isinstance(room, dict):
        return room
    found = {
        name: value
        for name, value in vars(room).items()
        if inspect.isfunction(value) and not name.startswith("_") and _makes(value, family)
    }
    return {
        name: function
        for name, function in found.items()
        if not (written and any(_only_function(hint) for hint in _hints(function).values()))
    }


def _makes(factory: Callable, family: type) -> bool:
    result = _hints(factory).get("return")
    return isinstance(result, type) and issubclass(result, family)


@functools.cache
def _hints(factory: Callable) -> dict[str, Any]:
    """The types of a factory's arguments (of a class, its constructor's)."""
    function = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return typing.get_type_hints(function)
    except NameError:
        return {}


@functools.cache
def _world_pieces() -> dict[str, Any]:
    """What a name means wherever it is an argument: `drift` is a Drift, as in a world."""
    return _hints(World)


@functools.cache
def _model(factory: Callable) -> type[pydantic.BaseModel]:
    """The keys that a factory's table may have, and the plain values they take."""
    hints = _hints(factory)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (_plain(hints.get(name, Any)), default)
    return pydantic.create_model(
        factory.__name__, __config__=pydantic.ConfigDict(extra="forbid", strict=True), **fields
    )


def _plain(hint: Any) -> Any:
    """The part of a type that a file can hold: numbers, words, truth values; else anything."""
    known = [part for part in _parts(hint) if part in (int, float, str, bool)]
    if not known or any(_piece_like(part) or part is Any for part in _parts(hint)):
        return Any
    return typing.Union[tuple(known)]  # noqa: UP007


def _parts(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself; None aside."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(part for part in typing.get_args(hint) if part is not type(None))
    return (hint,)


def _piece_like(hint: Any) -> bool:
    return _family(hint) is not None or _member_family(hint) is not None


def _family(hint: Any) -> type | None:
    """Which family of pieces a type stands for."""
    for part in _parts(hint):
        for family in FAMILIES:
            if isinstance(part, type) and issubclass(part, family):
                return family
    return None


def _member_family(hint: Any) -> type | None:
    """Which family a list's members belong to."""
    for part in _parts(hint):
        if typing.get_origin(part) in (list, tuple, collections.abc.Sequence):
            return _family(typing.get_args(part)[0])
    return None


def _only_function(hint: Any) -> bool:
    """Whether nothing but a function will do."""
    return all(
        part is collections.abc.Callable or typing.get_origin(part) is collections.abc.Callable
        for part in _parts(hint)
    )


def _is_piece(value: Any) -> bool:
    return isinstance(value, dict)


# Arrays from files


def _array(path: Path) -> np.ndarray:
    """The numbers of a CSV file (a first line of names is skipped) or an NPY file."""
    if not path.is_file():
        hint = _checks.did_you_mean(path.name, _names_beside(path))
        raise ValueError(f"there is no file {str(path)!r}.{hint}")
    if path.suffix.lower() == ".npy":
        try:
            return np.load(path, allow_pickle=False)
        except ValueError:
            raise ValueError(f"{str(path)!r} is not a NumPy file of numbers.") from None
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    named = bool(lines) and not _numeric(lines[0])
    rows: list[list[float]] = []
    for number, line in enumerate(lines[named:], start=1 + named):
        if not line.strip():
            continue
        cells = _cells(line)
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            wrong = next(cell for cell in cells if not _numeric(cell))
            raise ValueError(
                f"{str(path)!r} must hold numbers; got {wrong!r} in line {number}."
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise ValueError(
                f"{str(path)!r} must have {len(rows[0])} columns in every line; "
                f"got {len(rows[-1])} in line {number}."
            )
    if not rows:
        raise ValueError(f"{str(path)!r} must hold numbers; got none.")
    array = np.array(rows)
    return array[:, 0] if array.shape[1] == 1 and path.suffix.lower() == ".txt" else array


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in (line.split(",") if "," in line else line.split())]


def _numeric(line: str) -> bool:
    try:
        return bool([float(cell) for cell in _cells(line)])
    except ValueError:
        return False


def _names_beside(path: Path) -> list[str]:
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []


# How mistakes are told


def _said(error: Any, model: type[pydantic.BaseModel]) -> str:
    """Pydantic's complaint in our words."""
    given, last = error["input"], str(error["loc"][-1]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        return f"unknown key; {_hint(last, model.model_fields)}"
    if error["type"] == "missing":
        return "must be given."
    wanted = {
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "float_type": "a number",
        "string_type": "a word in quotation marks",
        "bool_type": "true or false",
        "dict_type": "a table",
        "list_type": "a list",
        "too_short": f"{'a list' if isinstance(given, list) else 'a table'} with at least one entry",
        "greater_than_equal": f"at least {error.get('ctx', {}).get('ge')}",
    }.get(error["type"])
    return f"must be {wanted or error['msg']}; got {_shown(given)}."


def _without_branch(place: tuple[Any, ...]) -> tuple[Any, ...]:
    """The place without the name of a union's branch, which Pydantic puts last."""
    return place[:-1] if len(place) > 1 and place[-1] in ("int", "float", "str", "bool") else place


def _hint(name: Any, known: Any) -> str:
    near = _checks.nearest(name, known)
    return f"did you mean {near!r}?" if near else f"known are {_listed(known)}."


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "an empty table" if value == {} else _checks.shown(value)


def _key(part: Any) -> str:
    """A key as TOML writes it."""
    text = str(part)
    bare = text.replace("-", "").replace("_", "")
    return text if bare.isascii() and bare.isalnum() else f'"{text}"'


def _syntax(text: str, message: str) -> str:
    """The parser's complaint, and the line it is about."""
    import re

    found = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", message)
    if found is None:
        return f"not TOML: {message}."
    what, line = found[1], int(found[2])
    lines = text.splitlines()
    shown = lines[line - 1].strip() if line <= len(lines) else ""
    return f"line {line} is not TOML: {what[0].lower()}{what[1:]} in {_checks.shown(shown)}."
