"""What languages are called in English, by their codes. Standard library only."""

from __future__ import annotations

LANGUAGE_NAMES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "pt": "Portuguese",
    "nl": "Dutch", "sv": "Swedish", "da": "Danish", "pl": "Polish", "cs": "Czech", "ro": "Romanian", "ru": "Russian",
    "uk": "Ukrainian", "bg": "Bulgarian", "el": "Greek", "ar": "Arabic", "he": "Hebrew", "hi": "Hindi",
    "ko": "Korean", "zh": "Chinese", "ja": "Japanese",
}  # fmt: skip


def language_name(code: str) -> str:
    """The code itself where the language is not known."""
    return LANGUAGE_NAMES.get(code, code)
