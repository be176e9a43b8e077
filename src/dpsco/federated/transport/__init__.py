"""Messages between processes: a coordinator that listens, parties that ask it for work.

A transport carries messages and decides nothing about rows or noise: who may take part, what is
answered and what leaves is decided by the protocol above it. Parties ask and the coordinator
answers, so that a hospital opens no port.

Read in this order:

| module     | holds                                                                        |
|------------|------------------------------------------------------------------------------|
| gathering  | `Gathering`: who is asked, whose answers are there, when a round closes      |
| tokens     | who may speak for a party: secret words, kept as digests                     |
| tls        | certificates of both sides; plain HTTP on loopback alone                     |
| rates      | how often somebody may ask                                                   |
| server     | `serve`: a coordinator behind HTTPS (Starlette, uvicorn)                     |
| client     | `join`: a party's side of it (httpx)                                         |
| flower_app | the same run as a Flower app, whose transport, TLS and identities are Flower's |
"""

from .client import Line, join
from .gathering import Gathering, RunOverError
from .server import serve
from .tls import client_context, server_context
from .tokens import Tokens

__all__ = [
    # a run as parties see it
    "Gathering",
    "RunOverError",
    # over HTTPS
    "serve",
    "join",
    "Line",
    "Tokens",
    "server_context",
    "client_context",
]
