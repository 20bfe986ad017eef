"""Who made a release: an Ed25519 signature over the exact bytes of SHA256SUMS, which lists every other file's hash.

Keys are PEM files (PKCS#8 and SubjectPublicKeyInfo) and release.sig holds the 64 bytes of the signature, so that other
tools can check it: openssl pkeyutl -verify -pubin -inkey KEY.pub -rawin -in SHA256SUMS -sigfile release.sig, and then
sha256sum -c SHA256SUMS.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hazeglass.errors import BundleError, InputError, OutputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = "release.sig"
Signature = Literal["none", "not checked", "valid"]
SIGNATURE_BYTES = 64
_LARGEST_KEY = 1 << 16
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# Ed25519's curve: -x^2 + y^2 = 1 + d x^2 y^2 modulo a prime.
_PRIME = 2**255 - 19
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
_ROOT_OF_MINUS_1 = pow(2, (_PRIME - 1) // 4, _PRIME)


def new_key(path: str | Path) -> Path:
    """Write a new private key to `path`, readable by its owner alone, and its public half to `path`.pub.

    Neither replaces a file that is there. Returns the place of the public half.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private, public = Path(path), Path(f"{path}.pub")
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    _write_new(public, key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo), 0o644)
    try:
        _write_new(private, secret, 0o600)
    except BaseException:
        public.unlink()
        raise
    return public


def _write_new(path: Path, raw: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise OutputError(f"{str(path)!r} is there already, and a key is never replaced. Name a new file.") from None
    except (OSError, ValueError) as error:
        raise OutputError(f"{str(path)!r} cannot be written: {_reason(error)}.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def read_private_key(path: str | Path) -> Ed25519PrivateKey:
    """The key a release is signed with; refused, as by ssh, where the file is ours and others may read or change it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key, info = _key_of(path, lambda raw: load_pem_private_key(raw, password=None))
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{str(path)!r} must be a private Ed25519 key in PEM. Make one with `hazeglass key new FILE` and name FILE."
        )
    if os.name == "posix" and info.st_uid == os.geteuid() and info.st_mode & _OF_OTHERS:
        raise InputError(
            f"the private key {str(path)!r} must be for its owner alone, and its mode {stat.S_IMODE(info.st_mode):04o} "
            f"lets others at it, who could sign in your name. Run chmod 600 {shlex.quote(str(path))}, and make a new "
            "key if anyone may have read this one."
        )
    return key


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """The key a signature is checked with."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key, _ = _key_of(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(
            f"{str(path)!r} must be a public Ed25519 key in PEM. Name the .pub file that the publisher handed over."
        )
    if not binds(key.public_bytes_raw()):
        raise InputError(
            f"{str(path)!r} holds an Ed25519 key that no private key has, with which a signature may fit anything. "
            "Do not rely on who handed it over; ask the publisher for the .pub file itself."
        )
    return key


def binds(raw: bytes) -> bool:
    """Whether 32 bytes are a point of the curve in its only spelling, and eight times it is not the neutral one.

    With one of the eight points of small order a signature fits one message in eight, or every one. The library that
    checks signatures takes these points, and numbers beyond the prime; no private key gives either.
    """
    sign, y = divmod(int.from_bytes(raw, "little"), 1 << 255)
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _PRIME) % _PRIME  # of x; -1/d is no square, so this is defined
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    if x * x % _PRIME != square:
        x = x * _ROOT_OF_MINUS_1 % _PRIME
    if y >= _PRIME or x * x % _PRIME != square or (sign and not x):
        return False
    for _ in range(3):
        both = _D * x * x * y * y
        x, y = 2 * x * y * pow(1 + both, -1, _PRIME) % _PRIME, (y * y + x * x) * pow(1 - both, -1, _PRIME) % _PRIME
    return x != 0 or y != 1


def _key_of(path: str | Path, parse: Callable[[bytes], object]) -> tuple[object, os.stat_result]:
    """The key in a file, None where it holds none that is known; and whose file it is."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        with Path(path).open("rb") as file:
            raw, info = file.read(_LARGEST_KEY), os.fstat(file.fileno())
    except (OSError, ValueError) as error:
        raise InputError(f"the key {str(path)!r} cannot be read: {_reason(error)}.") from None
    try:
        return parse(raw), info
    except TypeError:
        raise InputError(f"{str(path)!r} is locked with a password. Name a key without one.") from None
    except (ValueError, UnsupportedAlgorithm):
        return None, info


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "no file can have this name"


def check_signature(folder: Path, checksums: bytes, key: Ed25519PublicKey | None) -> Signature:
    """Refuse a release that `key` did not sign; without a key, only say whether there is a signature to check."""
    from cryptography.exceptions import InvalidSignature

    path = folder / SIGNATURE
    if not path.exists():
        if key is not None:
            raise BundleError("the release is not signed: it holds no release.sig. Ask the publisher for a signed one.")
        return "none"
    if path.stat().st_size != SIGNATURE_BYTES:
        raise BundleError(f"{SIGNATURE} must be {SIGNATURE_BYTES} bytes long. Ask the publisher for a new copy.")
    if key is None:
        return "not checked"
    try:
        key.verify(path.read_bytes(), checksums)
    except InvalidSignature:
        raise BundleError("this key did not sign the release, or it was changed since. Do not rely on it.") from None
    return "valid"
