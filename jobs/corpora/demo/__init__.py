"""The demo language: English to German by a grammar of ours."""
