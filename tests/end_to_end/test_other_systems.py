"""Systems that are not the one at hand, as far as they can be played: what they refuse, they refuse here too."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hazeglass as hg
from hazeglass.bundle.sign import new_key
from hazeglass.bundle.transport import pack
from hazeglass.datasets import download
from hazeglass.errors import OutputError, PlanError
from hazeglass.publisher.ledger import Ledger
from hazeglass.publisher.plan_file import fill_plan_file


@pytest.fixture
def windows(monkeypatch):
    """No folder can be opened, no file that is open for reading alone can be flushed, FAT has no links."""
    real_open, real_fsync, readers = os.open, os.fsync, set()

    def open_file(path, flags, *more, **options):
        if Path(os.fsdecode(path)).is_dir() and "dir_fd" not in options:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        handle = real_open(path, flags, *more, **options)
        readers.discard(handle)
        if flags & (os.O_WRONLY | os.O_RDWR) == 0:
            readers.add(handle)
        return handle

    def fsync(handle):
        if handle in readers:
            raise OSError(errno.EBADF, "Bad file descriptor")
        real_fsync(handle)

    def link(*names, **options):
        raise OSError(errno.EINVAL, "Incorrect function")

    monkeypatch.setattr("hazeglass._files.os.open", open_file)
    monkeypatch.setattr("hazeglass._files.os.fsync", fsync)
    monkeypatch.setattr("hazeglass._files.os.link", link)
    monkeypatch.delattr("signal.SIGHUP", raising=False)


@pytest.mark.usefixtures("windows")
def test_the_whole_journey_works_without_folders_to_flush_and_without_links(make_plan, table, tmp_path):
    plan = make_plan()
    plan.save(tmp_path / "plan.toml")
    Ledger.create(tmp_path / "a.ledger", "rows", mu_total=1.0)
    key = tmp_path / "office.key"
    new_key(key)
    release = hg.publish(table, tmp_path / "plan.toml", tmp_path / "out", ledger=tmp_path / "a.ledger", sign=key)
    assert hg.load(pack(release.path, tmp_path / "out.zip"), key=f"{key}.pub").signature == "valid"
    hg.recover(release).save(tmp_path / "graph")
    download._write_new(tmp_path / "data" / "d.csv", b"a\n1\n")
    assert not [path for path in tmp_path.rglob("*") if "partial" in path.name or path.name.startswith(".")]


@pytest.mark.usefixtures("windows")
def test_without_links_a_file_is_still_never_replaced(make_plan, tmp_path):
    for name, write in (
        ("plan.toml", lambda path: make_plan().save(path)),
        ("a.ledger", lambda path: Ledger.create(path, "rows", mu_total=1.0)),
    ):
        path = tmp_path / name
        path.write_text("mine")
        with pytest.raises(OutputError, match="exists"):
            write(path)
        assert path.read_text() == "mine"


def test_a_system_without_links_at_all_is_one_too(make_plan, tmp_path, monkeypatch):
    monkeypatch.delattr("hazeglass._files.os.link")
    make_plan().save(tmp_path / "plan.toml")
    assert hg.Plan.load(tmp_path / "plan.toml") == make_plan()


def test_a_disk_that_is_full_is_no_missing_link(make_plan, tmp_path, monkeypatch):
    def full(*names):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hazeglass._files.os.link", full)
    with pytest.raises(OutputError, match="No space left"):
        make_plan().save(tmp_path / "plan.toml")
    assert list(tmp_path.iterdir()) == []


def test_line_ends_of_windows_change_neither_rows_nor_plans(make_plan, tmp_path):
    rows = b"a,b,c\n" + b"".join(b"%d,%d,%d\n" % (k % 7 - 3, k % 5 - 2, k % 3 - 1) for k in range(200))
    make_plan().save(tmp_path / "plan.toml")
    released = []
    for name, ends in (("unix", b"\n"), ("windows", b"\r\n")):
        (tmp_path / f"{name}.csv").write_bytes(rows.replace(b"\n", ends))
        plan = tmp_path / f"{name}.toml"
        plan.write_bytes((tmp_path / "plan.toml").read_bytes().replace(b"\n", ends))
        release = hg.publish(tmp_path / f"{name}.csv", plan, tmp_path / name, simulate_seed=1)
        released.append(release.moments()[-1].second.tolist())
        assert b"\r" not in (tmp_path / name / "release.json").read_bytes()
    assert released[0] == released[1]


def test_a_plan_saved_by_an_editor_of_windows_is_read_and_filled_in(make_plan, tmp_path):
    make_plan().save(tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text(encoding="utf-8")
    marked, wide = tmp_path / "marked.toml", tmp_path / "wide.toml"
    marked.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert hg.Plan.load(marked) == make_plan()
    assert fill_plan_file(marked, "a", {"lower": -3.0}) == 1
    assert hg.Plan.load(marked).columns[0].lower == -3.0
    wide.write_bytes(text.encode("utf-16"))  # what > writes in an old PowerShell
    with pytest.raises(PlanError, match="Save it as UTF-8"):
        hg.Plan.load(wide)


def test_processes_that_are_spawned_and_not_forked_can_publish(tmp_path):
    """As on Windows and macOS: a child knows nothing that its parent did not hand over."""
    script = tmp_path / "job.py"
    script.write_text(
        "import multiprocessing, numpy as np, hazeglass as hg\n"
        "def work(out):\n"
        "    columns = [hg.Column(f'x{k}', 'continuous', lower=-4, upper=4) for k in (1, 2)]\n"
        "    plan = hg.Plan(title='t', form='moments', epsilon=1.0, delta=1e-6, columns=columns)\n"
        "    return hg.publish(np.random.default_rng(0).normal(size=(500, 2)), plan, out).n\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        f"        print(pool.apply(work, ({str(tmp_path / 'out')!r},)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200)
    assert done.stdout.strip() == "500", done.stderr
