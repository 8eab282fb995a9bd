"""Text for a terminal or a log, of which a part may come from anybody: table metadata, other programs' errors."""

from __future__ import annotations

#: Control characters as their pictures (one cell each, so that columns stay in line); those that turn the writing direction as well.
_PICTURES = {
    **{code: 0x2400 + code for code in range(32)},
    127: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF), 0xFFFD),
}
_LINES = {code: picture for code, picture in _PICTURES.items() if code != 10}


def visible(text: str, *, lines: bool = False) -> str:
    """Replace in ``text`` everything that a terminal obeys, and put it on one line; ``lines``: its own line ends stay."""
    return text.translate(_LINES if lines else _PICTURES)
