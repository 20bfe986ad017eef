"""A signature shows who made a release; a key is read before anything else happens."""

import os
import shutil
import stat
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

import hazeglass as hg
from hazeglass.bundle.sign import binds, new_key, read_private_key
from hazeglass.bundle.writer import BundleWriter
from hazeglass.errors import BundleError, InputError, OutputError

from .forgery import reseal, resum


@pytest.fixture
def key(tmp_path):
    new_key(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def public(key):
    return key.with_name("key.pub")


@pytest.fixture
def signed(make_plan, table, tmp_path, key):
    return hg.publish(table, make_plan(), tmp_path / "release", sign=key)


def test_the_private_key_is_for_its_owner_alone(key, public):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_no_umask_opens_the_private_key(tmp_path):
    before = os.umask(0)
    try:
        new_key(tmp_path / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "key.pub").stat().st_mode) == 0o644


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666])
def test_a_private_key_that_others_can_read_or_change_signs_nothing(make_plan, table, tmp_path, key, mode):
    key.chmod(mode)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=rf"its mode {mode:04o} lets others .* Run chmod 600 \S*key, and"):
        hg.publish(table, make_plan(), tmp_path / "r", ledger=tmp_path / "ledger", sign=key)
    assert sorted(os.listdir(tmp_path)) == before
    for good in (0o600, 0o400, 0o700):
        key.chmod(good)
        assert read_private_key(key)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_the_mode_of_a_key_that_another_account_shares_is_that_accounts_business(key):
    """A container's secret belongs to root and is read by a service; it cannot change the mode."""
    key.chmod(0o640)
    os.chown(key, 12345, -1)
    assert read_private_key(key)


@pytest.mark.parametrize("name", ["key", "key.pub"])
def test_a_key_is_never_replaced(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(OutputError, match="is there already"):
        new_key(tmp_path / "key")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_a_key_is_not_written_through_a_link(tmp_path):
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="is there already"):
        new_key(tmp_path / "key")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match="cannot be written: No such file"):
        new_key(tmp_path / "nowhere" / "key")


def test_a_signed_release_is_accepted_with_its_key(signed, public):
    assert hg.load(signed.path, key=public).signature == "valid"
    assert hg.load(signed.path, key=str(public)).manifest == signed.manifest
    assert hg.load(signed.path).signature == "not checked"
    assert "release.sig" not in (signed.path / "SHA256SUMS").read_text()


def test_openssl_agrees(signed, public):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(public), "-rawin", "-in", "SHA256SUMS"]
    check = [*command, "-sigfile", "release.sig"]
    assert subprocess.run(check, cwd=signed.path, capture_output=True).returncode == 0
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=signed.path, check=True)
    reseal(signed.path, lambda document: document.update(title="Another"))
    assert subprocess.run(check, cwd=signed.path, capture_output=True).returncode != 0


def test_a_release_without_a_signature_is_refused_where_a_key_is_given(make_plan, table, tmp_path, public):
    release = hg.publish(table, make_plan(), tmp_path / "plain")
    assert release.signature == "none"
    with pytest.raises(BundleError, match="the release is not signed"):
        hg.load(release.path, key=public)


def test_a_signature_cannot_be_taken_away_unseen(signed, public):
    (signed.path / "release.sig").unlink()
    resum(signed.path)
    with pytest.raises(BundleError, match="the release is not signed"):
        hg.load(signed.path, key=public)


def test_another_key_is_refused(signed, tmp_path):
    other = new_key(tmp_path / "other")
    with pytest.raises(BundleError, match="this key did not sign"):
        hg.load(signed.path, key=other)


def test_whatever_a_forger_changes_the_signature_no_longer_fits(signed, public):
    reseal(signed.path, lambda document: document.update(title="Another"))
    assert hg.load(signed.path).manifest.title == "Another"
    with pytest.raises(BundleError, match="this key did not sign"):
        hg.load(signed.path, key=public)


def test_a_part_cannot_be_replaced_under_a_signature(signed, public, make_plan, table, tmp_path):
    other = hg.publish(table, make_plan(), tmp_path / "other")
    (signed.path / "moments.parquet").write_bytes((other.path / "moments.parquet").read_bytes())
    with pytest.raises(BundleError, match=r"was changed after publication|has another size"):
        hg.load(signed.path, key=public)
    resum(signed.path)
    with pytest.raises(BundleError, match="this key did not sign"):
        hg.load(signed.path, key=public)


@pytest.mark.filterwarnings("ignore:the release was made by hazeglass 0.9.9")
def test_a_page_of_another_version_cannot_be_replaced_under_a_signature(
    make_plan, table, tmp_path, key, public, monkeypatch
):
    for module in ("publisher.publish", "bundle.verify"):
        monkeypatch.setattr(f"hazeglass.{module}.__version__", "0.9.9")
    folder = hg.publish(table, make_plan(), tmp_path / "old", sign=key).path
    monkeypatch.undo()
    with pytest.warns(hg.errors.HazeglassWarning, match=r"not checked; whoever signed the release vouches for them"):
        assert hg.load(folder, key=public).not_compared
    (folder / "statement.html").write_text("Nothing can be learned.")
    (folder / "SHA256SUMS").unlink()
    BundleWriter(folder).checksums()
    with pytest.warns(hg.errors.HazeglassWarning, match=r"not checked; anyone may have written them"):
        assert hg.load(folder).not_compared
    with pytest.raises(BundleError, match="this key did not sign"):
        hg.load(folder, key=public)


@pytest.mark.parametrize("size", [0, 63, 65, 1 << 20])
def test_a_signature_of_another_length_is_refused_even_without_a_key(signed, size):
    (signed.path / "release.sig").write_bytes(b"x" * size)
    resum(signed.path)
    with pytest.raises(BundleError, match="must be 64 bytes long"):
        hg.load(signed.path)


def pem(key):
    form = serialization
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


LOCKED = ed25519.Ed25519PrivateKey.generate().private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
)
BAD_KEYS = {
    "empty": (b"", "must be a private Ed25519 key"),
    "noise": (bytes(range(256)), "must be a private Ed25519 key"),
    "another kind": (pem(ec.generate_private_key(ec.SECP256R1())), "must be a private Ed25519 key"),
    "locked": (LOCKED, "locked with a password"),
    "cut": (pem(ed25519.Ed25519PrivateKey.generate())[:-40], "must be a private Ed25519 key"),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_bad_key_is_refused_before_anything_is_charged_or_drawn(make_plan, table, tmp_path, name):
    raw, message = BAD_KEYS[name]
    (tmp_path / "key").write_bytes(raw)
    with pytest.raises(InputError, match=message):
        hg.publish(table, make_plan(), tmp_path / "r", ledger=tmp_path / "no ledger", sign=tmp_path / "key")
    assert sorted(os.listdir(tmp_path)) == ["key"]


def test_a_key_that_is_not_there_is_one_sentence(make_plan, table, tmp_path, signed):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        hg.publish(table, make_plan(), tmp_path / "r", sign=tmp_path / "nothing")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        hg.load(signed.path, key=tmp_path / "nothing")


def test_the_halves_of_a_key_are_not_taken_for_each_other(make_plan, table, tmp_path, key, public, signed):
    with pytest.raises(InputError, match="must be a private Ed25519 key"):
        hg.publish(table, make_plan(), tmp_path / "r", sign=public)
    with pytest.raises(InputError, match="must be a public Ed25519 key"):
        hg.load(signed.path, key=key)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def root(square):
    """A root modulo the prime, None where there is none."""
    candidates = [pow(square, (P + 3) // 8, P) * turn % P for turn in (1, pow(2, (P - 1) // 4, P))]
    return next((one for one in candidates if (one * one - square) % P == 0), None)


def of_small_order():
    """Every spelling of the eight points that eight times themselves are nothing.

    Twice a point of order 4 is (0, -1), so its y is 0; twice one of order 8 has y = 0, so y^2 = -x^2, and the curve
    says d y^4 + 2 y^2 = 1.
    """
    eighth = [root((-1 + turn * root(1 + D)) * pow(D, -1, P) % P) for turn in (1, -1)]
    ys = {1, P - 1, 0, *(y * turn % P for y in eighth if y is not None for turn in (1, -1))}
    spelled = ys | {y + P for y in ys if y + P < 2**255}
    return {(y | sign << 255).to_bytes(32, "little") for y in spelled for sign in (0, 1)}


def test_a_key_of_small_order_is_refused_since_a_signature_of_it_fits_anything(make_plan, table, tmp_path):
    weak = of_small_order()
    assert len(weak) == 14  # of eight points: twice two of them, 1 and 0, have a second spelling, and x = 0 two signs
    nothing = (1).to_bytes(32, "little")
    ed25519.Ed25519PublicKey.from_public_bytes(nothing).verify(nothing + bytes(32), b"whatever it is")
    folder = hg.publish(table, make_plan(), tmp_path / "r").path
    (folder / "release.sig").write_bytes(nothing + bytes(32))
    for number, raw in enumerate(sorted(weak)):
        (tmp_path / f"{number}.pub").write_bytes(public_pem(raw))
        with pytest.raises(InputError, match="holds an Ed25519 key that no private key has"):
            hg.load(folder, key=tmp_path / f"{number}.pub")


def public_pem(raw):
    key = ed25519.Ed25519PublicKey.from_public_bytes(raw)
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def test_a_key_that_is_no_point_or_spells_one_in_a_second_way_is_refused():
    for y in range(P, 2**255):
        assert not binds(y.to_bytes(32, "little"))
        assert not binds((y | 1 << 255).to_bytes(32, "little"))
    squares = [root((y * y - 1) * pow(D * y * y + 1, -1, P) % P) for y in range(2, 200)]
    found = [binds(y.to_bytes(32, "little")) for y in range(2, 200)]
    assert found == [x is not None for x in squares]
    assert 60 < sum(found) < 140


def test_every_key_that_is_made_is_taken():
    for _ in range(50):
        assert binds(ed25519.Ed25519PrivateKey.generate().public_key().public_bytes_raw())
