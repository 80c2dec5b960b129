"""Text in and out of a translation: sentences, HTML, what must stay unchanged, loops, languages. Knows no Ray."""
