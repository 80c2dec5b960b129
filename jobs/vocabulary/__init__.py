"""The stage `vocabulary`: subwords shared by both languages."""
