"""The report: one HTML file that says what a run released, what it cost, and what that means.

In the order of reading:

| module           | holds                                                                    |
|------------------|--------------------------------------------------------------------------|
| page             | `render` and `write`: the page, everything escaped                       |
| view             | what the page shows, section by section; `Utility`                       |
| assumptions      | what was declared about the rows, and which of it is enforced            |
| attack_roc       | bounds on every membership attack, from the privacy curve                |
| charts, svg      | the pictures; lines and bars as inline SVG                               |
| text, formatting | plain language; claims rounded up                                        |
"""

from .page import render, write
from .view import Utility

__all__ = ["Utility", "render", "write"]
