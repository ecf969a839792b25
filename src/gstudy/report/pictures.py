"""Plots as bytes: SVG to embed, PNG to keep as a file."""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Picture"]

_DPI = 150
_OTHER_SCRIPTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "WenQuanYi Micro Hei",
    "IPAGothic",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
)


@dataclass(frozen=True, slots=True)
class Picture:
    """One plot of a report, drawn when its bytes are first asked for.

    Parameters
    ----------
    name : str
        Of its file, without suffix.
    caption : str
        What it shows, with scale and level of the intervals.
    draw : function
        Makes the figure in a call without arguments.
    """

    name: str
    caption: str
    draw: Callable[[], tuple[Figure, Axes]]
    _drawn: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def svg(self) -> bytes:
        """The plot as SVG, letters as outlines."""
        return self._bytes("svg")

    @property
    def png(self) -> bytes:
        """The plot as PNG."""
        return self._bytes("png")

    @property
    def source(self) -> str:
        """The SVG as a data URI: as an image it can load nothing and run nothing."""
        return f"data:image/svg+xml;base64,{b64encode(self.svg).decode('ascii')}"

    def _bytes(self, kind: str) -> bytes:
        if kind not in self._drawn:
            self._drawn[kind] = _drawn(self.draw, kind)
        return self._drawn[kind]


def _drawn(draw: Callable[[], tuple[Figure, Axes]], kind: str) -> bytes:
    """A plot as a file of this kind, the same bytes for the same plot."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    family = [*mpl.rcParams["font.family"], *_more_fonts()]
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with (
        mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "gstudy", "font.family": family}),
        warnings.catch_warnings(),
    ):
        # A label in letters that no font here has is a row of boxes; the tables have its text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure, _ = draw()
        written = io.BytesIO()
        try:
            figure.savefig(written, format=kind, dpi=_DPI, metadata=metadata)
        finally:
            plt.close(figure)
    return written.getvalue()


@cache
def _more_fonts() -> tuple[str, ...]:
    """The fonts of this machine for labels in other scripts than the usual font has."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return tuple(name for name in _OTHER_SCRIPTS if name in installed)
