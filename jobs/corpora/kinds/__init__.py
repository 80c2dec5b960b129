"""Kinds of corpora: a file each, named by `kind` of its config, whose `read` says what is to be done."""
