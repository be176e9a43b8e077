"""Files that change together: all of them or none, whatever fails or dies, and whenever."""

import errno
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest

from dpsco.errors import DataError
from dpsco.files.journal import claim_of, recover
from dpsco.files.writing import Draft, commit, mode_of_copy, write_files, write_text

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals, devices, locks")


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# -- one file --------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_with_its_mode(tmp_path):
    path = tmp_path / "a.json"
    write_text(path, "ä")
    assert path.read_text(encoding="utf-8") == "ä"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    os.chmod(path, 0o640)
    write_text(path, "b" * 100_000)
    assert path.read_text() == "b" * 100_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, call):
    path = tmp_path / "a"
    path.write_text("old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(DataError, match=r"cannot write .*a: No space left on device\."):
            write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


@POSIX
def test_a_file_beyond_the_limit_of_the_process(tmp_path):
    """The system itself refuses, in the middle of a write."""
    program = """
        import resource, sys
        from dpsco.files.writing import write_text
        from dpsco.errors import DataError
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            write_text(sys.argv[1], "x" * 9000)
        except DataError as problem:
            print(problem)
    """
    (tmp_path / "a").write_text("old")
    command = [sys.executable, "-c", textwrap.dedent(program), tmp_path / "a"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.stdout == f"cannot write {tmp_path / 'a'}: File too large.\n", said.stderr
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@POSIX
def test_only_regular_files_are_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # a socket's name has 108 letters at most
        server.bind("socket")
        words = {
            "folder": "Is a directory",
            "link": "it is a link",
            "nowhere": "it is a link",
            "pipe": "it is a pipe",
            "socket": "it is a socket",
        }
        for name, word in words.items():
            before = os.lstat(tmp_path / name)
            with pytest.raises(DataError, match=rf"cannot write .*{name}: {word}"):
                write_text(tmp_path / name, "ours")
            assert os.lstat(tmp_path / name)[:3] == before[:3]
    with pytest.raises(DataError, match="cannot write /dev/full: it is a device"):
        write_text("/dev/full", "ours")
    with pytest.raises(DataError, match="embedded null"):
        write_text(tmp_path / "a\0b", "ours")
    with pytest.raises(DataError, match="not valid Unicode"):
        write_text(tmp_path / "a", "\udc80")
    with pytest.raises(DataError, match=r"cannot write .*a: there is no folder .*none\."):
        write_text(tmp_path / "none" / "a", "ours")
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "absent").exists()


# -- several files ---------------------------------------------------------------------------------


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["kill", "kill after", "error", "error after", "full", "interrupt", "interrupt after"]
)
def test_four_files_whatever_happens_at_any_call(tmp_path, faults, how):
    points, outcomes = faults.struck(tmp_path, how, "files")
    assert points > 40
    assert set(outcomes) <= faults.ONE_OF
    assert outcomes["none"] > 20
    if how.startswith("kill"):  # the harness does see that renames happen one by one
        assert outcomes["all after recovery"] >= 3


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "full"])
def test_the_five_files_of_the_demonstration(tmp_path, faults, how):
    from dpsco.cli import demo_fit
    from dpsco.privacy.randomness import Randomness

    demo_fit.run(randomness=Randomness.seeded(1)).saved.save(tmp_path / "saved.json")
    points, outcomes = faults.struck(tmp_path, how, "demo", tmp_path / "saved.json")
    assert points > 50
    assert set(outcomes) <= faults.ONE_OF


def test_claims_of_the_dead_are_followed_with_care(tmp_path):
    """A claim moves drafts to their places, and nothing else to nowhere else."""
    place, other = tmp_path / "model.json", tmp_path / "other.json"
    secret, victim = tmp_path / "secret", tmp_path / "victim"
    secret.write_text("secret")
    victim.write_text("victim")
    draft, old = tmp_path / ".model.json.1-a.dpsco-draft", tmp_path / ".model.json.1-a.dpsco-old"
    claim = claim_of(place)
    for moves in (
        [[place, secret, old, 1, 1]],
        [[victim, draft, old, 1, 1]],
        [[victim, secret, victim, 1, 1]],
        [[tmp_path / "x" / ".." / "model.json", draft, old, 1, 1]],
    ):
        draft.write_text("draft")
        listed = [[str(part) if isinstance(part, Path) else part for part in m] for m in moves]
        for state in "fu":
            claim.write_text(state + json.dumps(listed))
            claim.chmod(0o600)
            recover(place)
            assert (secret.read_text(), victim.read_text()) == ("secret", "victim")
            assert not claim.exists()
    for content in ("", "f", "f{", "f[[]]"[:2], '-"/etc/passwd"', f'-"{claim}"', "x[]"):
        claim.write_text(content)
        claim.chmod(0o600)
        recover(place)
        assert not claim.exists()
    claim.write_text(f"-{json.dumps(str(claim_of(other)))}")  # two that point at each other
    claim_of(other).write_text(f"-{json.dumps(str(claim))}")
    recover(place)
    assert names(tmp_path) == [draft.name, "secret", "victim"]


@POSIX
def test_a_claim_that_others_can_write_is_not_followed(tmp_path):
    place = tmp_path / "model.json"
    draft, old = tmp_path / ".model.json.1-a.dpsco-draft", tmp_path / ".model.json.1-a.dpsco-old"
    draft.write_text("theirs")
    claim = claim_of(place)
    claim.write_text("f" + json.dumps([[str(place), str(draft), str(old), 1, 1]]))
    claim.chmod(0o666)
    recover(place)
    assert not place.exists()
    with pytest.raises(DataError, match="is in the way, left by another user's command"):
        write_files({place: b"ours", tmp_path / "b": b"ours"})
    claim.chmod(0o600)
    recover(place)
    assert place.read_text() == "theirs"


def test_what_somebody_else_has_written_since_is_left_alone(tmp_path):
    places = [tmp_path / name for name in "ab"]
    places[0].write_text("old")
    drafts = [Draft(place) for place in places]
    for draft in drafts:
        draft.create()
        draft.write(b"new")

    def replace(source, target, real=os.replace):
        if Path(target).name == "b":
            places[0].unlink()
            places[0].write_text("somebody's own")
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(DataError, match=r"Input/output error"):
            commit(drafts)
    for draft in drafts:
        draft.drop()
    assert places[0].read_text() == "somebody's own"
    assert names(tmp_path) == ["a"]


def test_threads_that_write_the_same_files_take_turns(tmp_path):
    """Whoever is last, the files are of one writer; overlapping sets in any order do not block."""
    places = [tmp_path / name for name in ("a", "b", "c")]
    problems = []

    def work(mine):
        chosen = [places[k] for k in ((0, 1, 2), (2, 1, 0), (1, 2, 0))[mine]]
        try:
            for _ in range(10):
                write_files({place: str(mine).encode() for place in chosen})
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len({place.read_text() for place in places}) == 1
    assert names(tmp_path) == ["a", "b", "c"]


def test_names_of_any_length(tmp_path):
    places = [tmp_path / (letter * length) for letter in "xy" for length in (1, 179, 181, 255)]
    write_files(dict.fromkeys(places, b"new"))
    assert names(tmp_path) == sorted(place.name for place in places)


@POSIX
def test_a_copy_is_no_more_open_than_the_folders_of_its_source():
    """Files in a closed folder may say that everybody reads them; a group is another one there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        rows.chmod(0o666)
        assert mode_of_copy([rows]) == 0o600
        os.chmod(folder, 0o755)
        assert mode_of_copy([rows]) == 0o666
        rows.chmod(0o640)
        assert mode_of_copy([rows]) == 0o600
