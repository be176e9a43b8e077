"""When and how a loop is compiled: lazily, once per machine, beside a NumPy reference.

Numba is imported when the first loop is compiled and never before. Which of the two implementations
serves a job depends on the job's public size and on the installation alone, not on what ran
before in the process: a seeded run gives the same bits twice. A loop sees one call; whoever knows
the whole job (all rounds of a fit) decides for all its calls with `implementation`.
``DPSCO_COMPILED=0`` in the environment keeps the references for good, ``DPSCO_COMPILED=1`` takes
the compiled loops for every job.

Machine code is kept on disk where Numba keeps it (``NUMBA_CACHE_DIR``, else beside the module, else
in the user's cache directory), under a name that holds a digest of the source, because Numba's own
check (time and size of the file) cannot tell two installed versions apart. Where no directory can
be written, loops are compiled in each process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
import types as python_types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from ..errors import MissingExtraError
from .slope import SlopeFunction, TwoArgument

Loop = Callable[..., None]

COMPILE_THRESHOLD = 1.5
"""Seconds that a NumPy reference may take before the compiled loop is worth loading.

Loading Numba and machine code from the disk takes about as long, compiling afresh a few times it.
"""

REASSOCIATE = ("reassoc", "contract", "nsz", "arcp")
"""Fast-math flags for sums over dense rows: they vectorise, and NaN and infinity stay defined."""
CONTRACT = ("contract",)
"""Flags for sparse rows: with ``reassoc``, gathers become slow vector instructions."""


def available() -> bool:
    """Whether compiled loops may be used: Numba is installed and not switched off."""
    return os.environ.get("DPSCO_COMPILED") != "0" and _installed()


def _installed() -> bool:
    if "numba" in sys.modules:
        return sys.modules["numba"] is not None
    return _found()


@lru_cache(maxsize=1)
def _found() -> bool:
    return importlib.util.find_spec("numba") is not None  # searches folders: not for every leaf


_decision: ContextVar[bool | None] = ContextVar("compiled loops serve", default=None)


@contextmanager
def implementation(*, compiled: bool) -> Iterator[None]:
    """Decide for all calls within, in this thread, whether compiled loops or references serve.

    Raises:
        MissingExtraError: compiled loops are demanded, but Numba is absent or switched off.
    """
    if compiled and not available():
        raise MissingExtraError(
            "compiled=True needs Numba, which is absent or switched off by DPSCO_COMPILED=0. "
            "Install dpsco[fast], or let the NumPy references serve."
        )
    token = _decision.set(compiled)
    try:
        yield
    finally:
        _decision.reset(token)


def use_compiled(reference_seconds: float) -> bool:
    """Return whether compiled loops serve a job that would take the NumPy reference so long.

    Within `implementation` that decision holds, whatever the size of the job.
    """
    decision = _decision.get()
    if decision is not None:
        return decision
    eager = os.environ.get("DPSCO_COMPILED") == "1"
    return (eager or reference_seconds > COMPILE_THRESHOLD) and available()


def compile_loop(
    function: Callable[..., None],
    signature: str,
    *,
    flags: tuple[str, ...],
    helpers: tuple[Callable[..., Any], ...] = (),
) -> Loop:
    """Compile a loop for exactly one signature, or load its machine code from the disk.

    A function must always be given the same flags: Numba's cache does not tell them apart.

    Args:
        function: a function of a module, written in what Numba understands.
        signature: result and arguments by the names of `_types`, e.g. "none(floats, out)".
        flags: fast-math flags, `REASSOCIATE`, `CONTRACT` or none.
        helpers: plain functions of the same package that the loop calls.
    """
    for helper in helpers:
        _register(helper)
    import numba

    result, arguments = signature.rstrip(")").split("(")
    named = _types()
    typed = named[result](*(named[name.strip()] for name in arguments.split(",")))
    options = {"nogil": True, "error_model": "numpy", "fastmath": set(flags) or False}
    sources = tuple(inspect.getfile(part) for part in (function, *helpers))
    stamped = _stamped(function, sources)
    try:
        loop: Loop = numba.njit([typed], cache=True, **options)(stamped)
    except (RuntimeError, OSError):  # nowhere to write a cache
        loop = numba.njit([typed], **options)(stamped)
    return loop


def scalar_function(function: SlopeFunction) -> Any:
    """Return a slope function as machine code that compiled loops can call; None if impossible.

    Functions of a module are kept on disk. A user's function of two arguments is compiled in every
    process (0.1 s); if Numba does not understand it, the NumPy references serve.
    """
    try:
        return _scalar_function(function)
    except Exception:  # a user's code may fail in any way (or have no hash); it runs as Python
        return None


@lru_cache(maxsize=64)
def _scalar_function(function: Any) -> Any:
    """Compile, or load from the disk; whatever goes wrong is raised."""
    import numba

    signature = "f8(f8,f8,f8,f8)"
    options = {"error_model": "numpy"}
    if isinstance(function, TwoArgument):
        plain = function.function
        inner = plain if hasattr(plain, "py_func") else numba.njit(**options)(plain)

        def outer(margin: float, label: float, first: float, second: float) -> Any:
            return inner(margin, label)

        return numba.cfunc(signature, **options)(outer)
    if "<" not in function.__qualname__:  # a name in angle brackets is local: never found again
        stamped = _stamped(function, (inspect.getfile(function),))
        try:
            return numba.cfunc(signature, cache=True, **options)(stamped)
        except (RuntimeError, OSError):  # nowhere to write a cache
            pass
    return numba.cfunc(signature, **options)(function)


@lru_cache(maxsize=64)
def _register(helper: Callable[..., Any]) -> None:
    """Let loops call a plain function; it is compiled into each with that loop's flags."""
    from numba.extending import register_jitable

    register_jitable(helper)


def _stamped(function: Any, files: tuple[str, ...]) -> Any:
    """Return a copy whose qualified name, hence its name on disk, holds a digest of its sources."""
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        try:
            with open(path, "rb") as file:
                digest.update(file.read())
        except OSError:  # a source that is not a file; Numba will not cache it either
            return function
    copy = python_types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__module__ = function.__module__
    copy.__qualname__ = f"{function.__qualname__}_{digest.hexdigest()[:12]}"
    return copy


@lru_cache(maxsize=1)
def _types() -> dict[str, Any]:
    """Return the types that signatures name; read-only inputs accept writable arrays too."""
    from numba import types

    def array(kind: Any, dimensions: int, readonly: bool = True) -> Any:
        return types.Array(kind, dimensions, "C", readonly=readonly)

    f8 = types.float64
    return {
        "none": types.void,
        "float": f8,
        "integer": types.int64,
        "floats": array(f8, 1),
        "integers": array(types.int64, 1),
        "columns": array(types.int32, 1),
        "words": array(types.uint64, 1),
        "out": array(f8, 1, readonly=False),
        "flags": array(types.uint8, 1, readonly=False),
        "float32 rows": array(types.float32, 2),
        "float64 rows": array(f8, 2),
        "float32 out": array(types.float32, 2, readonly=False),
        "float64 out": array(f8, 2, readonly=False),
        "float32 values": array(types.float32, 1),
        "float64 values": array(f8, 1),
        "slope": types.FunctionType(f8(f8, f8, f8, f8)),
    }
