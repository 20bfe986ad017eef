"""Where blocks of rows are read and worked on; knows nothing of privacy."""
