"""The stage `corpora`: aligned pairs from archives, files, test sets or the demo language."""
