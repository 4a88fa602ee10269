"""The words of a report, for scores of wording; without torch, which such scores do not need."""

from tokenizers import normalizers, pre_tokenizers

_NORMALISER, _CUTTER = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()


def words_of(text: str) -> list[str]:
    """Split a report into BERT's words and punctuation, in lower case.

    A decoder's text has lost capitals and some blanks, so references are normalised alike.
    """
    cut = _CUTTER.pre_tokenize_str(_NORMALISER.normalize_str(text))
    return [word for word, _ in cut]
