"""What asks a database needs ibis from its first line on."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ibis") else ["test_*.py"]
