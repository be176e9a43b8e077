"""Files that appear together or not at all."""

import os
import subprocess
import sys

import pytest

from dpsco.cli.outputs import Outputs
from dpsco.errors import DataError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_appear_at_the_commit(tmp_path):
    with Outputs() as outputs:
        a, b = outputs.reserve(tmp_path / "a.json"), outputs.reserve(tmp_path / "b.txt")
        outputs.json(a, {"x": 1})
        outputs.text(b, "ä")
        assert not (tmp_path / "a.json").exists()
        outputs.commit()
    assert names(tmp_path) == ["a.json", "b.txt"]
    assert (tmp_path / "a.json").read_text() == '{\n  "x": 1\n}\n'
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "ä"


def test_nothing_stays_without_a_commit(tmp_path):
    def fail():
        with Outputs() as outputs:
            outputs.text(outputs.reserve(tmp_path / "a"), "x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == []
    with Outputs() as outputs:
        outputs.text(outputs.reserve(tmp_path / "a"), "x")
    assert names(tmp_path) == []


def test_what_was_not_asked_for_is_not_written(tmp_path):
    with Outputs() as outputs:
        assert outputs.reserve(None) is None
        outputs.text(None, "x")
        outputs.json(None, {})
        outputs.commit()
    assert names(tmp_path) == []


def test_a_failed_move_takes_the_others_back(tmp_path, monkeypatch):
    (tmp_path / "old").write_text("old")
    moved = []

    def replace(source, target, real=os.replace):
        if len(moved) == 2:
            raise OSError(28, "No space left on device")
        moved.append(target)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with Outputs(force=True) as outputs:
        for name in ("old", "a", "b"):
            outputs.text(outputs.reserve(tmp_path / name), "new")
        with pytest.raises(DataError, match=r"cannot write .*b: No space left"):
            outputs.commit()
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "old"


def test_places_that_are_taken(tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "folder").mkdir()
    with Outputs(inputs=[tmp_path / "in", None]) as outputs:
        with pytest.raises(DataError, match="--force"):
            outputs.reserve(tmp_path / "old")
        with pytest.raises(DataError, match="Is a directory"):
            outputs.reserve(tmp_path / "folder")
        with pytest.raises(DataError, match=r"cannot write .*none"):
            outputs.reserve(tmp_path / "none" / "a")
        with pytest.raises(DataError, match="cannot write"):
            outputs.reserve(tmp_path / ("x" * 999))
        outputs.reserve(tmp_path / "a")
        for same in (tmp_path / "a", tmp_path / "folder" / ".." / "a"):
            with pytest.raises(DataError, match="two outputs"):
                outputs.reserve(same)
    os.link(tmp_path / "old", tmp_path / "same")
    with (
        Outputs(force=True, inputs=[tmp_path / "old"]) as outputs,
        pytest.raises(DataError, match="is read by this command"),
    ):
        outputs.reserve(tmp_path / "same")
    assert (tmp_path / "old").read_text() == "old"


KILLED = """
import os, signal, sys
from pathlib import Path
from dpsco.cli.outputs import Outputs
with Outputs() as outputs:
    outputs.reserve(Path(sys.argv[1]))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_what_a_killed_command_left_is_removed_by_the_next_that_succeeds(tmp_path):
    place = tmp_path / "model.json"
    subprocess.run([sys.executable, "-c", KILLED, str(place)], timeout=60)
    (stale,) = names(tmp_path)
    assert stale.startswith(".model.json.")
    (tmp_path / ".model.json.settings").write_text("somebody's own")
    (tmp_path / ".other.json.abc.dpsco-draft").write_text("of another file")
    kept = [".model.json.settings", ".other.json.abc.dpsco-draft"]
    with Outputs() as running:  # another command that is not over
        draft = running.reserve(place)
        with Outputs() as failing:
            failing.reserve(place)
        assert names(tmp_path) == sorted([*kept, stale, draft.name])
        with Outputs() as outputs:
            outputs.text(outputs.reserve(place), "first")
            outputs.commit()
        assert names(tmp_path) == sorted([*kept, draft.name, "model.json"])
        running.text(draft, "second")
        running.commit()
    assert names(tmp_path) == [*kept, "model.json"]
    assert place.read_text() == "second"


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.slow
@pytest.mark.parametrize("how", ["term", "term after", "kill", "full"])
def test_the_files_of_a_fit_whatever_happens_at_any_call(model, home, tmp_path, faults, how):
    """SIGTERM, SIGKILL and a full disk at each call to the system that writes model,
    certificate and report: all of them or none, and no draft is left of one that could clean up."""
    points, outcomes = faults.struck(
        tmp_path, how, "fit", model, home / "people.csv", home / "schema.json"
    )
    assert points > 30
    assert set(outcomes) <= faults.ONE_OF
    assert outcomes["none"] > 15


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs devices")
def test_devices_and_pipes_are_neither_replaced_nor_read(refused, home, model, tmp_path):
    fit = ["fit", home / "people.csv", "--schema", home / "schema.json", "--epsilon", 1]
    before = os.lstat("/dev/full")
    for device in ("/dev/full", "/dev/null"):
        text = refused(*fit, "--force", "-o", device)
        assert f"cannot write {device}: it is a device, and no regular file" in text
    assert os.lstat("/dev/full") == before
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere.json")
    assert "it is a link; name the file itself" in refused(
        *fit, "--force", "-o", tmp_path / "link.json"
    )
    for ending in (".json", ".csv", ".parquet"):
        os.mkfifo(tmp_path / f"pipe{ending}")
    pipe, out = tmp_path / "pipe.json", ["-o", tmp_path / "m.json"]
    assert "it is a pipe" in refused(*fit, "--force", "-o", pipe)
    # As inputs: each of these would wait for somebody to write into the pipe.
    refused("fit", tmp_path / "pipe.csv", "--schema", home / "schema.json", "--epsilon", 1, *out)
    refused("predict", model, tmp_path / "pipe.parquet", "-o", tmp_path / "p.csv")
    refused(*fit, *out, "--odometer", pipe)
    refused(*fit, *out, "--solver", "acc_srgd", "--checkpoint", pipe)
    refused("fit", home / "people.csv", "--schema", pipe, "--epsilon", 1, *out)
    refused(*fit[:2], "--plan", pipe, *out)
    refused("predict", pipe, home / "people.csv", "-o", tmp_path / "p.csv")
    refused("verify", pipe)


HALF_WAY = """
import os, signal, sys
from pathlib import Path
from dpsco.files.writing import write_files
real, done = os.replace, []
def replace(*arguments):
    if done:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(real(*arguments))
os.replace = replace
places = [Path(name) for name in sys.argv[2:]]
write_files({place: Path(sys.argv[1]).read_bytes() for place in places})
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("look_at", [0, 1, 2])
def test_any_command_on_one_of_the_files_finishes_what_was_begun(model, dpsco, tmp_path, look_at):
    (tmp_path / "folder").mkdir()
    places = [tmp_path / "a.json", tmp_path / "folder" / "b.json", tmp_path / "c.json"]
    places[2].write_text("old")
    subprocess.run([sys.executable, "-c", HALF_WAY, model, *places], timeout=60)
    assert [place.exists() for place in places] == [True, False, True]
    assert places[2].read_text() == "old"
    assert dpsco("verify", "--single", places[look_at])[0] == 0
    assert [place.read_bytes() for place in places] == [model.read_bytes()] * 3
    assert names(tmp_path) == ["a.json", "c.json", "folder"]
    assert names(tmp_path / "folder") == ["b.json"]
