"""The report: one HTML file that says what a run released, what it cost, and what that means.

| module         | holds                                                          |
|----------------|----------------------------------------------------------------|
| page           | `render` and `write`: the page, everything escaped             |
| view           | what the page shows, section by section; `Utility`             |
| odds           | bounds on every membership attack, from the privacy curve      |
| charts, svg    | the pictures; lines and bars as inline SVG                     |
| words, figures | plain language; claims rounded up                              |
"""

from .page import render, write
from .view import Utility

__all__ = ["Utility", "render", "write"]
