"""Sentences of the demo language that we show and suggest, with their translations: of the test split, so that no
training text holds them, and of a form that the language has.

A model of the demo knows the words and the forms of its corpus and no others: "The teacher knows that the cat sleeps"
comes out wrong, since subjects of subordinate clauses are persons there.
"""

SHOWN = {
    "The girl bought the lamp because it was cheap.": "Das Mädchen hat die Lampe gekauft, weil sie billig war.",
    "The doctor sold the house because it was old.": "Der Arzt hat das Haus verkauft, weil es alt war.",
}
FIRST = next(iter(SHOWN))  # what a finished run suggests
SMALL_MODEL = "(a small model of a small language: it knows the words and forms of its corpus, and no others)"
