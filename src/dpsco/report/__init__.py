"""The report: one HTML file that says what a run released, what it cost, and what that means.

In the order of reading:

| module           | holds                                                                    |
|------------------|--------------------------------------------------------------------------|
| page             | `render` and `write`: the page, everything escaped                       |
| view             | what the page shows, section by section                                  |
| model_view       | of it what is about the model: provenance, weights, `Utility`            |
| card             | `card`: the same facts as a model card in Markdown                       |
| assumptions      | what was declared about the rows, and which of it is enforced            |
| charts, svg      | the pictures; lines and bars as inline SVG                               |
| tradeoff_chart   | accuracy and attacks against epsilon, as a picture of its own            |
| text, formatting | plain language; claims rounded up                                        |
| notebook         | a fragment of HTML for each kind of result; `fragments` has its pieces   |
| plots            | a figure of Matplotlib for each kind                                     |
"""

from .card import card
from .model_view import Utility
from .page import render, write
from .tradeoff_chart import tradeoff_svg

__all__ = ["Utility", "card", "render", "tradeoff_svg", "write"]
