"""One process of the fuzzer: runs cases one by one, times and weighs them."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import resource
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpsco.errors import DpscoError

from .mutations import LONG
from .reading import Fuzzer, read_certificate

SECONDS = 2.0
MEGABYTES = 500.0
_LONGEST_MESSAGE = 1500
_PATIENCE = 60.0  # seconds of a case, after which the process ends


def run_cases(cases: list[tuple[str, int]], folder: Path) -> None:
    """Print one line of JSON a case; memory beyond the limit is not to be had."""
    warnings.simplefilter("ignore")
    fuzzer = Fuzzer(folder)
    _warm_up(fuzzer, folder)
    most = _status("VmSize") * 1024 + int(MEGABYTES * 1.2 * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for kind, number in cases:
        todo = fuzzer.case(kind, number)
        faulthandler.dump_traceback_later(_PATIENCE, exit=True)  # whatever it hangs in
        print(json.dumps({"kind": kind, "number": number, **judged(todo)}), flush=True)


def judged(todo: Callable[[], Any]) -> dict[str, Any]:
    """Return how a case went: the error's name, what is wrong with it, time and memory."""
    before = _reset_peak()
    started = time.process_time()
    error = fault = ""
    try:
        todo()
    except DpscoError as problem:
        error, text = type(problem).__name__, str(problem)
        if LONG[:100] in text or len(text) > _LONGEST_MESSAGE:
            fault = f"quotes {len(text)} characters: {text[:200]}"
    except BaseException as problem:
        error = type(problem).__name__
        where = traceback.extract_tb(problem.__traceback__)
        ours = [f"{Path(f.filename).name}:{f.lineno}" for f in where if "dpsco" in f.filename]
        fault = f"raw {error}: {str(problem)[:120]} ({' '.join(ours[-3:])})"
    seconds = time.process_time() - started
    megabytes = max(0.0, (_status("VmHWM") - before) / 1024)
    if seconds > SECONDS:
        fault = f"{fault} takes {seconds:.1f} s".strip()
    if megabytes > MEGABYTES:
        fault = f"{fault} takes {megabytes:.0f} MB".strip()
    return {"error": error, "fault": fault, "seconds": seconds, "megabytes": megabytes}


def _warm_up(fuzzer: Fuzzer, folder: Path) -> None:
    """Import what is imported on first use, which is not the file's doing."""
    for index, record in enumerate(fuzzer.texts["certificate"]):
        path = folder / f"honest.{index}"
        path.write_text(json.dumps(record))
        read_certificate(path)
    for kind in ("model", "schema", "message"):
        judged(fuzzer.case(kind, 0))


def _status(name: str) -> int:
    """Return a number of this process's status, in kB; 0 where the system does not tell."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) for x in text.splitlines() if x.startswith(name)), 0)


def _reset_peak() -> int:
    """Forget the peak of the memory in use, where the system can; return what is in use now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")
