import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from hazeglass.errors import InputError
from hazeglass.guarantee.lattice import RoundedGaussian
from hazeglass.publisher.noise import SecretBits, SeededBits, draw, keystream


def blocks(key: str, nonce: str, counter: int, count: int) -> str:
    out = np.empty(8 * count, dtype=np.uint64)
    keystream(bytes.fromhex(key), bytes.fromhex(nonce), counter, out)
    return out.tobytes().hex()


COUNTING_KEY = bytes(range(32)).hex()


def test_block_function_gives_the_vector_of_rfc_8439_section_2_3_2():
    assert blocks(COUNTING_KEY, "000000090000004a00000000", 1, 1) == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


@pytest.mark.parametrize(
    ("key", "nonce", "counter", "stream"),
    [  # RFC 8439, appendix A.1, vectors 1, 2, 3 and 5
        (
            "00" * 32,
            "00" * 12,
            0,
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
        ),
        (
            "00" * 32,
            "00" * 12,
            1,
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
            "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
        ),
        (
            "00" * 31 + "01",
            "00" * 12,
            1,
            "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
            "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
        ),
        (
            "00" * 32,
            "00" * 11 + "02",
            0,
            "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
            "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
        ),
    ],
)
def test_block_function_gives_the_vectors_of_rfc_8439_appendix_a(key, nonce, counter, stream):
    assert blocks(key, nonce, counter, 1) == stream


def test_cipher_encrypts_the_message_of_rfc_8439_section_2_4_2():
    message = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
        b"sunscreen would be it."
    )
    stream = bytes.fromhex(blocks(COUNTING_KEY, "000000000000004a00000000", 1, 2))
    assert bytes(a ^ b for a, b in zip(message, stream, strict=False)).hex() == (
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
        "f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8"
        "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d"
    )


def test_many_blocks_at_once_equal_one_at_a_time():
    together = blocks(COUNTING_KEY, "00" * 12, 7, 37)
    assert together == "".join(blocks(COUNTING_KEY, "00" * 12, 7 + i, 1) for i in range(37))


def test_the_words_of_a_seed_are_those_of_every_version_before():
    """A simulation can be repeated by whoever has its seed: the first words of three streams, written down once."""
    first = [SeededBits(seed, stream).uint64(2).tolist() for seed, stream in [(0, 0), (7, 3), (7, 3 + 2**33)]]
    assert first == [
        [17174514701382503272, 18413790938395739183],
        [6779316266080121418, 18385569155373386424],
        [16772644290887852255, 3297594073447559314],
    ]
    assert SeededBits(0).uint64(0).size == SecretBits().uint64(0).size == 0


def test_secret_bits_never_repeat_and_are_balanced():
    bits = SecretBits()
    first, second = bits.uint64(10_000), bits.uint64(10_000)
    assert not bits.simulation
    assert np.unique(np.concatenate([first, second])).size == 20_000
    ones = int(np.bitwise_count(first).sum()) if hasattr(np, "bitwise_count") else 320_000
    assert abs(ones - 320_000) < 6 * 400  # sd = sqrt(640000)/2 = 400


def test_seeded_bits_repeat_whatever_the_cut_and_differ_by_seed_and_stream():
    whole = SeededBits(3).uint64(100)
    pieces = SeededBits(3)
    np.testing.assert_array_equal(np.concatenate([pieces.uint64(n) for n in (1, 0, 7, 13, 79)]), whole)
    assert SeededBits(3).simulation
    assert not np.intersect1d(whole, SeededBits(4).uint64(100)).size
    assert not np.intersect1d(whole, SeededBits(3, stream=1).uint64(100)).size


def test_seeded_bits_hand_no_word_to_two_threads():
    bits, taken = SeededBits(1), []
    threads = [
        threading.Thread(target=lambda: taken.extend(bits.uint64(9).tolist() for _ in range(50))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = [word for piece in taken for word in piece]
    assert sorted(every) == sorted(SeededBits(1).uint64(8 * 50 * 9).tolist())


def test_a_stream_out_of_range_is_refused():
    with pytest.raises(InputError, match="stream must be"):
        SeededBits(1, stream=-1)


def test_a_stream_that_is_used_up_is_refused_and_its_last_words_are_not():
    """2^32 blocks of eight words: the counter of RFC 8439 must not begin again."""
    bits = SeededBits(1)
    bits._position = 2**35 - 16
    last = bits.uint64(16)
    assert np.unique(last).size == 16
    assert not np.intersect1d(last, SeededBits(1).uint64(16)).size
    with pytest.raises(InputError, match="holds 2\\^35 words"):
        bits.uint64(1)
    bits._position = 2**35 - 3
    with pytest.raises(InputError, match="holds 2\\^35 words"):
        bits.uint64(4)


def test_the_highest_stream_is_a_stream_and_streams_are_counted_from_their_parent():
    assert SeededBits(1, stream=2**64 - 1).uint64(3).size == 3
    with pytest.raises(InputError, match="stream must be"):
        SeededBits(1, stream=2**64)
    np.testing.assert_array_equal(SeededBits(5, stream=2).stream(3).uint64(9), SeededBits(5, stream=6).uint64(9))
    high = SeededBits(5, stream=7 + 2**32).uint64(9)  # both halves of the number reach the nonce
    assert not np.intersect1d(high, SeededBits(5, stream=7).uint64(9)).size


def test_a_seed_travels_and_begins_again_and_a_secret_source_holds_nothing_to_copy():
    bits = SeededBits(3, stream=4)
    first = bits.uint64(5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(bits)).uint64(5), first)
    assert bits.elsewhere() is bits
    secret = SecretBits()
    assert secret.stream(3) is secret.elsewhere() is secret


def test_secret_words_come_from_a_key_of_256_bits_asked_for_each_call(monkeypatch):
    asked = []

    def urandom(size):
        asked.append(size)
        return bytes(range(len(asked), len(asked) + size))

    monkeypatch.setattr("hazeglass.publisher.noise.os.urandom", urandom)
    first, second = SecretBits().uint64(9), SecretBits().uint64(9)
    assert asked == [32, 32]
    assert not np.intersect1d(first, second).size
    stream = blocks(bytes(range(1, 33)).hex(), "00" * 12, 0, 2)
    assert first.astype("<u8").tobytes().hex() == stream[: 9 * 16]


def _child(bits: SecretBits, pipe) -> None:
    pipe.send(bits.uint64(100).tolist())
    pipe.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_children_of_a_fork_never_repeat_the_parent_or_each_other():
    context = multiprocessing.get_context("fork")
    bits = SecretBits()
    seen = bits.uint64(100).tolist()
    for _ in range(4):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(bits, sender))
        child.start()
        seen += receiver.recv()
        child.join()
        seen += bits.uint64(100).tolist()
    assert len(set(seen)) == len(seen) == 900


def test_importing_the_sampler_does_not_import_numba():
    code = "import sys, hazeglass.publisher.noise; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}).returncode == 0


def test_drawing_works_where_no_cache_can_be_written(tmp_path):
    code = (
        "from hazeglass.guarantee.lattice import RoundedGaussian\n"
        "from hazeglass.publisher.noise import draw\n"
        "from hazeglass.publisher.noise import SeededBits\n"
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "print(draw(RoundedGaussian(3.0), 4, SeededBits(1)).tolist())\n"
        "from hazeglass.publisher.kernels import invert\n"
        "print(type(invert._cache).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    values, cache = done.stdout.splitlines()
    assert values == str(draw(RoundedGaussian(3.0), 4, SeededBits(1)).tolist())
    assert cache == "NullCache"
