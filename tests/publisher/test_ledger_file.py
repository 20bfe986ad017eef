"""What a writer that dies, a disk that fails, another program and another system can do to a ledger's file."""

import errno
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hazeglass.errors import InputError, OutputError, PrivacyRefusal
from hazeglass.guarantee.budget import Charge
from hazeglass.publisher import ledger as module
from hazeglass.publisher.ledger import Ledger

posix = pytest.mark.skipif(os.name != "posix", reason="rights, pipes and forks are POSIX's")


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", "feeder 12", mu_total=1.0)


def states(path):
    return [entry.state for entry in Ledger.open(path).history()]


# ---- lines that were never finished


def moments(ledger):
    """The file after each step of a release, and what it then says."""
    first = ledger.charge(Charge(0.5, "a"))
    yield ledger.path.read_bytes(), ["charged"]
    ledger.begin_drawing(first.digest)
    yield ledger.path.read_bytes(), ["drawn"]
    ledger.confirm(first.digest)
    yield ledger.path.read_bytes(), ["confirmed"]
    second = ledger.charge(Charge(0.25, "b"))
    yield ledger.path.read_bytes(), ["confirmed", "charged"]
    ledger.refund(second.digest)
    yield ledger.path.read_bytes(), ["confirmed", "refunded"]


def test_a_file_cut_at_any_byte_keeps_every_line_that_was_finished(ledger):
    """What was acknowledged ends with a newline, and a newline before the cut means that its line counts; a line counts
    even where nothing but its newline is missing."""
    said = {len(ledger.path.read_bytes()): []}
    for content, expected in moments(ledger):
        said[len(content)] = expected
    for end in range(min(said) - 1, len(content) + 1):
        known = max(size for size in said if size <= end + 1)
        ledger.path.write_bytes(content[:end])
        assert states(ledger.path) == said[known]
        assert ledger.path.read_bytes() == content[:end]  # who reads writes nothing


@pytest.mark.parametrize(
    "tail", [lambda line, k: line[:k], lambda line, k: bytes(k), lambda line, k: line[:k] + bytes(9)]
)
def test_the_next_who_writes_cuts_an_unfinished_line_off_and_nothing_else(ledger, tail):
    before = ledger.path.read_bytes()
    ledger.charge(Charge(0.5, "acknowledged", 2.0**-70))
    whole = ledger.path.read_bytes()
    ledger.charge(Charge(0.5, 'not "acknowledged", "digest": "' + "0" * 64 + '"}'))
    line = ledger.path.read_bytes()[len(whole) :]
    for k in range(1, len(line) - 1, 3):
        for kept, found in ((whole, ["charged"]), (before, [])):
            ledger.path.write_bytes(kept + tail(line, k) if kept is whole else kept)
            assert states(ledger.path) == found
            ledger.charge(Charge(0.25, "new"))
            assert ledger.path.read_bytes().startswith(kept)
            assert states(ledger.path) == [*found, "charged"]
            assert ledger.path.read_bytes().endswith(b"}\n")


def test_a_line_without_its_newline_counts_and_gets_it_back(ledger):
    """As where an editor takes the newline at a file's end away."""
    ledger.charge(Charge(0.5, "a"))
    ledger.path.write_bytes(ledger.path.read_bytes()[:-1])
    assert ledger.summary().mu_spent == 0.5
    with pytest.raises(PrivacyRefusal):
        ledger.charge(Charge(0.9))
    ledger.charge(Charge(0.25, "b"))
    assert [entry.charge.label for entry in ledger.history()] == ["a", "b"]
    assert ledger.path.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace(b"0.5", b"0.1")[:-1],
        lambda line: line[:-1] + b" ",
        lambda line: line[:-1] + b"\0 ",
        lambda line: line[:-1] + line[:9],
        lambda line: line.replace(b'"mu"', b'"nu"')[:-1] + bytes(5),
    ],
)
def test_a_whole_line_that_was_changed_is_damage_and_no_unfinished_one(ledger, change):
    before = ledger.path.read_bytes()
    ledger.charge(Charge(0.5, 'a, "digest": "' + "0" * 64 + '"}'))  # in quotes, which JSON marks
    damaged = before + change(ledger.path.read_bytes()[len(before) :])
    ledger.path.write_bytes(damaged)
    for attempt in (ledger.summary, lambda: ledger.charge(Charge(0.1))):
        with pytest.raises(InputError, match="line 2 does not follow"):
            attempt()
    assert ledger.path.read_bytes() == damaged


def test_a_line_whose_newline_became_zeros_counts(ledger):
    ledger.charge(Charge(0.5, "a"))
    ledger.path.write_bytes(ledger.path.read_bytes()[:-1] + bytes(40))
    assert ledger.summary().mu_spent == 0.5
    ledger.charge(Charge(0.25, "b"))
    assert [entry.charge.label for entry in ledger.history()] == ["a", "b"]
    assert b"\0" not in ledger.path.read_bytes()


def test_a_reader_who_meets_a_writer_looks_again(ledger, monkeypatch):
    ledger.charge(Charge(0.5))
    real, looks = module._content, []

    def mixed(handle):
        looks.append(real(handle))
        return looks[0].replace(b"0.5", b"0.1") if len(looks) == 1 else looks[-1]

    monkeypatch.setattr(module, "_content", mixed)
    assert ledger.summary().mu_spent == 0.5
    assert len(looks) == 2


# ---- disks


class Disk:
    """The system's calls, of which some fail."""

    def __init__(self, monkeypatch, writes=(), fsync=None, truncate=None):
        self.writes, self.calls = list(writes), []
        self.real = SimpleNamespace(write=os.write, fsync=os.fsync, ftruncate=os.ftruncate)
        for name, own in (("write", self.write), ("fsync", fsync), ("ftruncate", truncate)):
            if own is not None:
                monkeypatch.setattr(module.os, name, own)

    def write(self, handle, data):
        """So many bytes of each write, or an error."""
        step = self.writes.pop(0) if self.writes else len(data)
        if isinstance(step, int) and step < 1000:
            return self.real.write(handle, data[:step])
        if isinstance(step, int):
            return self.real.write(handle, data)
        raise OSError(step.value, os.strerror(step.value))


class Number:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
@pytest.mark.parametrize("short", [[], [1], [40, 60]])
def test_a_disk_that_is_full_leaves_the_ledger_as_it_was(ledger, monkeypatch, number, short):
    ledger.charge(Charge(0.5))
    before = ledger.path.read_bytes()
    with monkeypatch.context() as patch:
        Disk(patch, writes=[*short, Number(number)])
        with pytest.raises(OutputError, match=r"cannot be written .*: it stays as it was, and no noise") as caught:
            ledger.charge(Charge(0.25))
    assert os.strerror(number) in str(caught.value)
    assert ledger.path.read_bytes() == before
    ledger.charge(Charge(0.25))
    assert len(ledger.history()) == 2


def test_writes_that_stop_short_are_gone_on_with(ledger, monkeypatch):
    Disk(monkeypatch, writes=[1] * 400)
    ledger.charge(Charge(0.5, "a"))
    ledger.charge(Charge(0.5, "b"))
    assert [entry.charge.label for entry in ledger.history()] == ["a", "b"]


def refuse(*_):
    raise OSError(errno.EIO, "Input/output error")


def test_what_cannot_even_be_cut_off_stays_unfinished_and_is_passed_over(ledger, monkeypatch):
    with monkeypatch.context() as patch:
        Disk(patch, writes=[50, Number(errno.ENOSPC)], truncate=refuse)
        with pytest.raises(OutputError, match="stays as it was"):
            ledger.charge(Charge(0.9))
    assert not ledger.path.read_bytes().endswith(b"\n")
    assert ledger.summary().mu_spent == 0
    with monkeypatch.context() as patch:
        Disk(patch, truncate=refuse)
        with pytest.raises(OutputError, match="stays as it was"):  # nothing is written behind an unfinished line
            ledger.charge(Charge(0.5))
    ledger.charge(Charge(0.9))
    assert states(ledger.path) == ["charged"]


@pytest.mark.parametrize(("truncate", "spent"), [(None, 0.5), (refuse, 0.75)])
def test_a_line_that_may_not_be_on_disk_is_refused(ledger, monkeypatch, truncate, spent):
    """It is taken back, so that nothing is written behind a gap; where that fails it counts, too much and never too
    little. Nothing was drawn for it in either case."""
    digest = ledger.charge(Charge(0.5)).digest
    for call in (lambda: ledger.begin_drawing(digest), lambda: ledger.charge(Charge((0.75**2 - 0.5**2) ** 0.5))):
        with monkeypatch.context() as patch:
            Disk(patch, fsync=refuse, truncate=truncate)
            with pytest.raises(OutputError, match=r"Input/output error\): its last line may be lost or stay"):
                call()
    assert ledger.summary().mu_spent == pytest.approx(spent)
    assert states(ledger.path)[0] == ("drawn" if truncate else "charged")


def test_every_line_is_brought_to_the_disk_before_a_call_returns(ledger, monkeypatch):
    """And an unfinished line is gone from the disk before another is written."""
    real, done = SimpleNamespace(write=os.write, fsync=os.fsync, ftruncate=os.ftruncate), []
    for name in ("write", "fsync", "ftruncate"):
        monkeypatch.setattr(module.os, name, lambda *args, name=name: done.append(name) or getattr(real, name)(*args))
    digest = ledger.charge(Charge(0.5)).digest
    ledger.begin_drawing(digest)
    assert done == ["write", "fsync"] * 2
    with open(ledger.path, "ab") as file:
        file.write(b'{"event": 4')
    done.clear()
    ledger.confirm(digest)
    assert done == ["ftruncate", "fsync", "write", "fsync"]


LIMITED = """
import resource, sys
from hazeglass.errors import OutputError
from hazeglass.guarantee.budget import Charge
from hazeglass.publisher.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
taken = 0
try:
    while taken < 20:
        ledger.charge(Charge(0.01))
        taken += 1
except OutputError as error:
    print(taken, error)
"""


@posix
def test_a_limit_on_the_size_of_files_is_a_full_disk(ledger):
    done = subprocess.run([sys.executable, "-c", LIMITED, str(ledger.path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "File too large): it stays as it was" in done.stdout
    assert len(ledger.history()) == int(done.stdout.split()[0]) > 1
    assert ledger.path.read_bytes().endswith(b"}\n")


# ---- the lock


def test_a_ledger_that_is_locked_too_long_is_refused_and_can_be_read(ledger, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    with (
        ledger._locked(),
        pytest.raises(OutputError, match=r"cannot be used now: others have kept it locked for 0\.1 s"),
    ):
        Ledger(ledger.path).charge(Charge(0.1))
    with ledger._locked():
        assert Ledger(ledger.path).summary().mu_spent == 0
    ledger.charge(Charge(0.1))


def test_what_was_read_before_the_lock_does_not_count(ledger):
    """Of two who see the same room, the second is refused."""
    charged = []

    def wait_and_charge():
        try:
            charged.append(Ledger(ledger.path).charge(Charge(0.9)))
        except PrivacyRefusal as error:
            charged.append(error)

    with ledger._locked() as (handle, chain):
        other = threading.Thread(target=wait_and_charge)
        other.start()
        time.sleep(0.1)
        assert charged == []
        event = module.Event(2, "charge", 1, "2026-01-01T00:00:00+00:00", charge=Charge(0.9), nonce="a")
        ledger._append(handle, chain, event)
    other.join()
    assert isinstance(charged[0], PrivacyRefusal)
    assert len(ledger.history()) == 1


@posix
@pytest.mark.parametrize("moment", ["while it waits", "between opening and locking"])
def test_a_file_that_is_replaced_before_the_lock_is_left_alone(ledger, tmp_path, monkeypatch, moment):
    """A charge in a file that has no name any more would be lost."""
    other = Ledger.create(tmp_path / "other", "the same", mu_total=1.0)
    real = module._lock

    def replaced(handle, *, free=False):
        if not free and other.path.exists():
            os.replace(other.path, ledger.path)
            if moment == "while it waits":
                return False
        return real(handle, free=free)

    monkeypatch.setattr(module, "_lock", replaced)
    ledger.charge(Charge(0.5))
    assert (ledger.summary().dataset, states(ledger.path)) == ("the same", ["charged"])


@posix
def test_a_file_that_is_taken_away_before_the_lock_is_missed(ledger, monkeypatch):
    real = module._lock
    monkeypatch.setattr(
        module, "_lock", lambda handle, **free: ledger.path.unlink(missing_ok=True) or real(handle, **free)
    )
    with pytest.raises(OutputError, match="cannot be used now: No such file"):
        ledger.charge(Charge(0.5))


@posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_forked_under_the_lock_does_not_keep_it(ledger, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 5.0)
    reader, writer = os.pipe()
    with ledger._locked():
        child = os.fork()
        if child == 0:
            os.read(reader, 1)  # alive until the parent is done
            os._exit(0)
    try:
        ledger.charge(Charge(0.5))
    finally:
        os.write(writer, b"x")
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def test_a_disk_without_locks_is_refused_in_one_sentence(ledger, monkeypatch):
    def none(*_, **__):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(module, "_lock", none)
    with pytest.raises(OutputError, match=r"cannot be used now: No locks available\.$"):
        ledger.charge(Charge(0.5))


class WindowsLocks:
    """msvcrt.locking: a byte at the place where the file stands, for one handle at a time."""

    LK_UNLCK, LK_NBLCK = 0, 2

    def __init__(self):
        self.held = {}

    def locking(self, handle, mode, count):
        where = os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR), count
        assert where[1] > module.LARGEST  # a byte that is locked cannot be read
        if mode == self.LK_UNLCK:
            assert self.held.pop(where) == handle
        elif where in self.held:
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            self.held[where] = handle


def test_on_windows_one_byte_behind_the_ledger_is_locked(ledger, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    monkeypatch.setattr(module.sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", locks := WindowsLocks())
    digest = ledger.charge(Charge(0.5)).digest
    ledger.begin_drawing(digest)
    with ledger._locked():
        assert len(locks.held) == 1
        assert Ledger(ledger.path).summary().mu_spent == 0.5
        with pytest.raises(OutputError, match="kept it locked"):
            Ledger(ledger.path).confirm(digest)
    assert locks.held == {}
    ledger.confirm(digest)
    assert states(ledger.path) == ["confirmed"]


# ---- rights, and what is no plain file


@posix
@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "link to nothing", "loop"])
def test_what_is_no_plain_file_is_no_ledger_and_is_not_waited_for(tmp_path, kind):
    path = tmp_path / "l"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"device": "/dev/zero", "loop": "l"}.get(kind, "nothing"))
    for attempt in (Ledger(path).summary, lambda: Ledger(path).charge(Charge(0.1))):
        with pytest.raises(InputError, match="There is no ledger at"):
            attempt()
    with pytest.raises(OutputError, match="must not replace a file"):
        Ledger.create(path, "d", mu_total=1.0)


@posix
def test_a_pipe_that_takes_the_name_just_then_is_not_waited_for(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "l")
    monkeypatch.setattr("pathlib.Path.is_file", lambda self: True)
    with pytest.raises(InputError, match=r"not a hazeglass ledger|cannot be used now"):
        Ledger(tmp_path / "l").summary()
    with pytest.raises(InputError, match=r"not a hazeglass ledger|cannot be used now"):
        Ledger(tmp_path / "l").charge(Charge(0.1))


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "half \udcff\ud800", ""])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, name):
    with pytest.raises(InputError):
        Ledger.open(f"{tmp_path}/{name}")


@posix
def test_a_ledger_that_everybody_may_write_is_refused(ledger):
    ledger.charge(Charge(0.5))
    ledger.path.chmod(0o646)
    for attempt in (ledger.summary, lambda: ledger.charge(Charge(0.1))):
        with pytest.raises(PrivacyRefusal, match=r"can be written by everybody.*\(chmod o-w\)\."):
            attempt()
    ledger.path.chmod(0o664)
    assert ledger.summary().mu_spent == 0.5


@posix
def test_a_new_ledger_is_never_one_that_everybody_may_write(tmp_path):
    old = os.umask(0)
    try:
        Ledger.create(tmp_path / "l", "d", mu_total=1.0)
        Ledger(tmp_path / "l").charge(Charge(0.5))
    finally:
        os.umask(old)
    assert (tmp_path / "l").stat().st_mode & 0o777 == 0o664


@posix
def test_a_ledger_may_lie_in_a_folder_that_others_can_write(tmp_path):
    """A file that they add beside it changes nothing. They can put another in its place, which `ledger check` finds."""
    tmp_path.chmod(0o1777)
    ledger = Ledger.create(tmp_path / "l", "d", mu_total=1.0)
    ledger.charge(Charge(0.5))
    assert ledger.summary().mu_spent == 0.5
    assert not [path for path in tmp_path.iterdir() if path != ledger.path]


AS_ANOTHER = """
import fcntl, os, sys  # the first now: the other account may not read where Python lies
from pathlib import Path
groups, user, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
from hazeglass.errors import HazeglassError
from hazeglass.guarantee.budget import Charge
from hazeglass.publisher.ledger import Ledger
os.setgroups([int(groups)] if groups else [])
os.setgid(user)
os.setuid(user)
for attempt in (lambda: Ledger.open(path).summary().mu_spent, lambda: Ledger(Path(path)).charge(Charge(0.25)).id):
    try:
        print(attempt())
    except HazeglassError as error:
        print(error.exit_status, error)
"""


def as_another(path, group=""):
    """What another account is told who reads, and then charges."""
    done = subprocess.run([sys.executable, "-c", AS_ANOTHER, group, "54321", path], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def open_folder():
    """One that other accounts may enter; pytest's own are closed to them, again at every start of another pytest."""
    if os.name != "posix" or os.getuid() != 0:
        pytest.skip("only root can become another account")
    with tempfile.TemporaryDirectory() as name:
        if not all(folder.stat().st_mode & 0o001 for folder in Path(name).resolve().parents):
            pytest.skip("the folder for temporary files is closed to other accounts")
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_group_may_share_a_ledger_and_others_may_not(open_folder):
    ledger = Ledger.create(open_folder / "l", "d", mu_total=1.0)
    ledger.charge(Charge(0.5))
    os.chown(ledger.path, -1, 4242)
    for mode, told in (
        (0o660, ["2 The ledger", "2 The ledger"]),
        (0o664, ["0.5", "2 The ledger"]),
        (0o644, ["0.5", "2 The ledger"]),
        (0o666, ["3 The ledger", "3 The ledger"]),
    ):
        ledger.path.chmod(mode)
        said = as_another(ledger.path)
        assert [line[: len(start)] for line, start in zip(said, told, strict=True)] == told
        assert all("Permission denied" in line for line in said if line.startswith("2 "))
    ledger.path.chmod(0o660)
    assert as_another(ledger.path, group="4242") == ["0.5", "2"]
    ledger.charge(Charge(0.25))  # and its owner goes on, who was not root's group in earnest
    info = ledger.path.stat()
    assert (len(ledger.history()), info.st_mode & 0o777, info.st_gid) == (3, 0o660, 4242)


def test_random_bytes_are_never_a_ledger_nor_an_accident(ledger):
    """Whatever becomes of a file, it is read as it was, read as it was before its last lines, or refused."""
    for k in range(4):
        ledger.charge(Charge(0.1, f"{k}"))
    content, chance = ledger.path.read_bytes(), random.Random(7)
    before = [entry.digest for entry in ledger.history()]
    ledger._read = lambda again=True: module.read_chain(ledger.path.read_bytes(), ledger.path)
    for _ in range(2000):
        changed = bytearray(content)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(changed))
            piece = chance.choice([b"", chance.randbytes(1), b"\n", b"}", bytes(4), changed[:at]])
            changed[at : at + chance.randint(0, 3)] = piece
        ledger.path.write_bytes(changed)
        try:
            after = [entry.digest for entry in ledger.history()]
        except InputError:
            continue
        assert after == before[: len(after)]
        assert bytes(changed).startswith(content[: content.index(b"}\n")])
