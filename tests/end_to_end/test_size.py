"""How large the library is, and that no file has grown beyond what one person reads in one go."""

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
# What is reached with all capabilities; 130 and 17,500 were wanted before the last five of them.
MOST_FILES, MOST_LINES = 151, 39_250
MOST_LINES_OF_A_FILE = 400


def lines():
    return {path.relative_to(SOURCE): len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")}


def test_the_library_is_no_larger_than_it_has_to_be(capsys):
    found = lines()
    files, total = len(found), sum(found.values())
    with capsys.disabled():
        print(f"\nsrc: {files} files, {total:,} lines")  # noqa: T201 (what this test is for)
    assert files <= MOST_FILES, f"src has {files} files, where {MOST_FILES} is the most"
    assert total <= MOST_LINES, f"src has {total:,} lines, where {MOST_LINES:,} is the most"


def test_no_file_is_longer_than_a_person_reads():
    long = {str(path): count for path, count in lines().items() if count > MOST_LINES_OF_A_FILE}
    assert long == {}, f"no file may be longer than {MOST_LINES_OF_A_FILE} lines"
