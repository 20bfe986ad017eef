"""UNTRUSTED: from a release to a graph. Nothing here can reach the rows."""
