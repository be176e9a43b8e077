"""The local page: a table and its schema, an epsilon, one fit, a report to sign.

For people who do not write code. It runs in the browser on the machine that holds the rows; no page
shows a row. In the order of reading:

| module   | holds                                                                             |
|----------|-----------------------------------------------------------------------------------|
| study    | `Study`: what has been chosen so far, and the fit once there is one               |
| columns  | what is typed about columns, from a schema and back                               |
| preview  | what an epsilon would mean: utility, attack, what is left to spend                |
| fitting  | one fit, in a thread: it pays once, and leaves its files together or not at all   |
| guard    | who may speak with the page: cookie, Host, Origin, headers                        |
| app      | the pages and forms, by address                                                   |
| views    | what each page shows, as plain values for the templates                           |
| charts   | the odometer as a stacked bar                                                     |
| server   | `serve`: listens on 127.0.0.1, prints the address, ends with Ctrl-C               |

It decides nothing: plans, costs and refusals are those of the rooms below. ``static/`` holds the
style sheet, a small script and HTMX 2.0.11, unchanged, under its own licence (0BSD).
"""

from .server import serve

__all__ = ["serve"]
