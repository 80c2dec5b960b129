"""Heuristics on a line of text: its script, its language, whether its encoding was broken.

No model and no network: scripts by character ranges, languages by their commonest small words. That is enough to see
that a line is *plainly* in another language, which is all that cleaning asks; a short or mixed line passes.
"""

from __future__ import annotations

import re
from functools import lru_cache

LETTER = re.compile(r"[^\W\d_]")
WORD = re.compile(r"[^\W\d_]+")
BROKEN = re.compile(
    "\ufffd"  # what a decoder puts where it gave up
    "|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]"  # control characters
    "|Ã[\x80-\xbf\u0152-\u0192\u2013-\u2122]|Â[\xa0-\xbf]|â€"  # UTF-8 read as Latin-1 or Windows-1252
)

SCRIPTS = {
    "latin": re.compile("[A-Za-zªºÀ-ÖØ-öø-ʯḀ-ỿ]"),
    "cyrillic": re.compile("[\u0400-\u052f]"),
    "greek": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),
    "arabic": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "hebrew": re.compile("[\u0590-\u05ff]"),
    "devanagari": re.compile("[\u0900-\u097f]"),
    "hangul": re.compile("[\u1100-\u11ff\uac00-\ud7af]"),
    "han": re.compile("[\u3040-\u30ff\u3400-\u9fff]"),
}
SCRIPT_OF = {
    **dict.fromkeys(("ru", "uk", "bg", "sr", "mk", "be"), "cyrillic"),
    "el": "greek",
    **dict.fromkeys(("ar", "fa", "ur"), "arabic"),
    "he": "hebrew",
    **dict.fromkeys(("hi", "mr", "ne"), "devanagari"),
    "ko": "hangul",
    **dict.fromkeys(("zh", "ja"), "han"),
}  # every other language: latin

SMALL_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "en": """
            the of and to in a is that for it on with as are be this was by have not at from which we will has but
            they or an would their there been if can all were you should what more when one our its so these also his
            i he she who than into do must""",
        "de": """
            der die und in den das zu von nicht ist für mit dem des sich auf eine ein es daß dass wir auch im an als
            werden haben sie einer wird hat ich sind wie so bei nach zum aber zur oder über um diese dieser einen
            kann aus nur durch noch wenn vor am war unter sehr mehr uns ihre""",
        "fr": """
            de la le et les des à en du que un une est pour dans qui il nous sur pas ce plus au par a ne je sont avec
            vous cette mais ont se être ou aux comme ces été son ses sa leur elle on si même fait doit tout très
            notre y""",
        "es": """
            de la que el en y los a las del se por un para una con no es lo al como su más este o sus ha pero esta
            son sobre está ser también hay muy todo nos entre cuando sin ya han era fue""",
        "it": """
            di e che la il in per un del non è una i della sono le con si da dei alla nel al ha delle questo più gli
            ma anche come se lo essere nella sul dal questa hanno ci stato molto tutti""",
        "pt": """
            de que e a o do da em um para não uma os no se com na por mais as dos como mas ao ele das à seu sua ou
            ser quando muito nos já eu também pelo pela até isso são está foi""",
        "nl": """
            de het een van en in is dat op te zijn voor niet met die aan er om ook als dan maar bij wij we deze door
            naar heeft hebben uit worden wordt kan nog over zou moet meer geen al dit ik""",
        "sv": """
            och att det i en är som på för av med den till inte om de har ett vi jag men var så från vid kan när ska
            också eller detta mycket efter skulle""",
        "da": """
            og at det i en er som på for af med den til ikke om de har et vi jeg men var så fra ved kan når skal også
            eller dette meget efter ville være""",
        "pl": """
            w i na z do nie się że to jest o jak za po co od są dla przez ale tak czy tym już oraz przy jego może
            tego być które który także""",
        "cs": """
            a v se na je že to s z o i do pro ve jsem by jsou tak ale za jako od které který po být nebo však ze jeho
            také aby tím byl mezi při""",
        "ro": """
            de și în a la cu pe că nu o este un din care pentru mai să au prin fi sunt dar ce ca am fost dacă sau
            acest această lui sa""",
    }.items()
}


def looks_wrongly_encoded(text: str) -> bool:
    """True of control characters, characters that were lost, and UTF-8 that was read as something else."""
    return not (text.isascii() and text.isprintable()) and BROKEN.search(text) is not None


def looks_like_another_script(text: str, language: str) -> bool:
    """True if most characters are no letters, or most letters are not of the language's script."""
    letters = len(LETTER.findall(text))
    if 2 * letters < len(text) - text.count(" "):
        return True
    return 2 * len(SCRIPTS[SCRIPT_OF.get(language, "latin")].findall(text)) < letters


def looks_like_another_language(text: str, language: str) -> bool:
    """True if another language's small words stand there, three or more, and more than twice as many as our own."""
    words = WORD.findall(text.lower())
    if len(words) < 3:
        return False
    own = SMALL_WORDS[language]
    found = len([word for word in words if word in own])
    if 3 * found >= len(words):  # no line of running text has more
        return False
    counts = dict.fromkeys(SMALL_WORDS, 0)
    languages_of = _languages_of()
    for word in words:
        for other in languages_of.get(word, ()):
            counts[other] += 1
    del counts[language]
    most = max(counts.values())
    return most >= 3 and most > 2 * found


@lru_cache
def _languages_of() -> dict[str, tuple[str, ...]]:
    """The languages in which a word is a small word."""
    every = {word for words in SMALL_WORDS.values() for word in words}
    return {word: tuple(name for name, words in SMALL_WORDS.items() if word in words) for word in every}
