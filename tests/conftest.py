"""A harness that strikes a command at each of its calls to the system."""

import json
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

# A fault at one call to the system, before or after it is done, at each of them in turn; each time
# in a process of its own, which has old files at two of its places.
FAULTS = """
    import errno, itertools, json, os, signal, sys
    from pathlib import Path
    from dpsco.files.journal import recover
    from dpsco.files.writing import write_files
    from dpsco.errors import DataError

    CALLS = ("open", "write", "fsync", "link", "replace", "unlink", "lseek", "ftruncate", "chmod")
    home, how, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    for name in ("a", "b"):
        (home / name).mkdir()
    real = {name: getattr(os, name) for name in CALLS}
    places = [home / "a" / "one", home / "a" / "two", home / "b" / "one", home / "b" / "two"]

    def write(content):
        write_files({place: content for place in places})

    if what == "fit":
        from dpsco import cli
        from dpsco.cli import fit, report
        from dpsco.models import SavedModel
        saved = SavedModel.load(sys.argv[4])
        done = fit.Fit(saved, saved.plan, "", None, None)
        fit._carry_out = lambda *_: done
        fit._summary = lambda *_: "done"
        report.report_text = lambda *_: "report"
        places = [home / "b" / "m.json", home / "a" / "c.json", home / "b" / "r.html"]
        flags = zip(("-o", "--certificate", "--report"), map(str, places))
        command = ["fit", sys.argv[5], "--schema", sys.argv[6], "--epsilon", "1", "--force"]
        command += itertools.chain(*flags)

        def write(content):
            code = cli.main(command)
            if code == 2:
                raise DataError("cannot write")
            if code == 143:
                raise KeyboardInterrupt
            assert code == 0, code

    if what == "demo":
        from dpsco.cli import demo_fit as demo
        from dpsco.models import SavedModel
        saved = SavedModel.load(sys.argv[4])
        outcome = demo.Outcome(saved, {}, (1, 1))
        demo.Outcome._report = lambda self: "report"
        home = home / "a"
        files = ("model.json", "certificate.json", "report.html", "schema.json",
                 "fresh_messages.parquet")
        places = [home / name for name in files]

        def write(content):
            outcome.save(home)

    def reset():
        for place in places:
            for found in place.parent.iterdir():
                real["unlink"](found)
        for place in places[::3]:
            place.write_bytes(b"old")

    def state():
        return [place.read_bytes() if place.exists() else None for place in places]

    def beside():
        folders = {place.parent for place in places}
        return [p.name for folder in folders for p in folder.iterdir() if p not in places]

    reset()
    NONE = state()
    write(b"new")
    ALL = state()
    assert not any(a == b for a, b in zip(NONE, ALL, strict=True))

    def strike():
        if how.startswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        elif how.startswith("term"):
            os.kill(os.getpid(), signal.SIGTERM)
        elif how.startswith("interrupt"):
            raise KeyboardInterrupt
        else:
            raise OSError(errno.ENOSPC, "No space left on device")

    def injected(at):
        count = itertools.count()
        def wrapped(name):
            def call(*arguments, **named):
                now = next(count)
                lasting = how == "full" and name in ("open", "write", "fsync", "link")
                struck = now == at or lasting and now > at
                if name == "open" and not arguments[1] & os.O_CREAT:
                    struck = struck and how != "full"  # a full disk can be read
                if struck and not how.endswith("after"):
                    strike()
                value = real[name](*arguments, **named)
                if struck and how.endswith("after"):
                    strike()
                return value
            return call
        for name in CALLS:
            setattr(os, name, wrapped(name))
        return count

    def attempt(at):
        count = injected(at)
        try:
            write(b"new")
            return 0, next(count)
        except DataError as problem:
            assert "cannot write" in str(problem), problem
            return 1, next(count)
        except KeyboardInterrupt:
            return 2, next(count)
        finally:
            for name in CALLS:
                setattr(os, name, real[name])

    outcomes, at = {}, 0
    while True:
        reset()
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.dup2(2, 1)
            outcome, last = attempt(at)
            os._exit(3 if last <= at else outcome)
        status = os.waitpid(pid, 0)[1]
        code = -9 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if code == 3:
            break
        left, before = beside(), state()
        recover(places[at % len(places)])  # whichever the next command looks at
        found, torn = state(), before not in (NONE, ALL)
        word = "all" if found == ALL else "none" if found == NONE else f"TORN {found} at {at}"
        if code != -9 and torn:
            word = f"TORN {before} at {at}, and lives"
        if code == 1 and word == "all" or code == 0 and word != "all":
            word = f"SAID OTHERWISE at {at}"
        if left and code in (1, 2) and not how.endswith("after"):
            word = f"LEFT {left} at {at}"
        write(b"next")
        if beside():
            word = f"UNCLEAN {beside()} at {at}"
        key = word if not torn else word + " after recovery"
        outcomes[key] = outcomes.get(key, 0) + 1
        at += 1
    print(json.dumps({"points": at, "outcomes": outcomes}))
"""


def struck(folder, how, *what):
    """Return how many calls were struck, and what became of the files."""
    command = [sys.executable, "-c", textwrap.dedent(FAULTS), folder, how, *map(str, what)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return found["points"], found["outcomes"]


ONE_OF = {"all", "none", "none after recovery", "all after recovery"}


@pytest.fixture(scope="session")
def faults():
    """`struck`, and the outcomes that are right."""
    return SimpleNamespace(struck=struck, ONE_OF=ONE_OF)
