"""Phrases as they are given to a text encoder for grounding."""


def plain_phrases(phrases: list[str], strip_punctuation: bool) -> list[str]:
    """The phrases, without . ! ? at their ends if asked: released BioViL code leaves these out.

    A phrase of nothing else stays as it is.
    """
    if not strip_punctuation:
        return phrases
    return [phrase.rstrip(".!? \t\n") or phrase for phrase in phrases]
