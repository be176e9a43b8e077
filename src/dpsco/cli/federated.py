"""``federated``: one model of several parties' rows, each of which keeps its own.

`serve` is the coordinator, `join` a party; `token` and `roster` make what they need beforehand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .arguments import TABLES, add_force, add_odometer, command

if TYPE_CHECKING:
    from .session import Session

_DESCRIPTION = """Fit one model on the rows of several parties, each of which keeps its rows.

Everybody has the same plan (`dpsco plan --units declared --n ROWS_OF_ALL -o plan.json`). The
coordinator serves it; each party joins, and sends one clipped sum per round. Parties open the
connections, so they need no port. Both sides show certificates; a party shows a token besides.
With --roster the coordinator sees no party's sum, only the sum of all."""

_SERVE = """
dpsco federated serve --plan plan.json --schema schema.json --listen 0.0.0.0:8443 \\
    --tokens tokens.json --tls-cert server.pem --tls-key server.key --client-ca ca.pem \\
    --checkpoint run.checkpoint -o model.json
dpsco federated serve --plan plan.json --listen 127.0.0.1:8000 --tokens tokens.json \\
    --plain-http -o model.json"""
_JOIN = """
dpsco federated join https://trial.example:8443 --plan plan.json --schema schema.json \\
    --table patients.parquet --name north --token-file north.token --journal north.journal \\
    --ca ca.pem --cert north.pem --key north.key -o model.json"""
_TOKEN = """
dpsco federated token north --tokens tokens.json -o north.token"""
_ROSTER = """
dpsco federated roster --worker north=north.mask.pub --worker south=south.mask.pub \\
    --minimum 2 -o roster.json"""


def add(commands: Any) -> None:
    """Add the command."""
    federated = command(
        commands,
        "federated",
        "fit one model on rows that stay with several parties",
        examples=_TOKEN + _SERVE + _JOIN,
        description=_DESCRIPTION,
    )
    actions = federated.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_serve(actions)
    _add_join(actions)
    _add_token(actions)
    _add_roster(actions)


def _add_serve(actions: Any) -> None:
    serve = command(actions, "serve", "be the coordinator of a run", examples=_SERVE)
    _add_agreement(serve)
    serve.add_argument(
        "--listen", required=True, metavar="HOST:PORT", help="an address of this machine"
    )
    serve.add_argument(
        "--tokens", type=Path, required=True, metavar="FILE", help="of `dpsco federated token`"
    )
    serve.add_argument("--tls-cert", type=Path, metavar="FILE", help="the server's certificate")
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key")
    serve.add_argument(
        "--client-ca", type=Path, metavar="FILE", help="who signs the parties' certificates"
    )
    _add_plain(serve)
    serve.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="if the coordinator is killed, the same command goes on from it; secret until then",
    )
    add_odometer(serve)
    serve.add_argument(
        "--minimum", type=int, metavar="K", help="parties that a round needs (default: all)"
    )
    serve.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="how long a round waits for more than the minimum (default: without end)",
    )
    serve.add_argument(
        "--seed", type=int, help="for tests only: anybody who knows the seed can undo the noise"
    )
    serve.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL", help="to write")
    add_force(serve)
    serve.set_defaults(run=_serve)


def _add_join(actions: Any) -> None:
    join = command(actions, "join", "take part in a run with rows that stay here", examples=_JOIN)
    join.add_argument("url", metavar="URL", help="https://HOST:PORT of the coordinator")
    _add_agreement(join)
    join.add_argument("--table", type=Path, metavar="DATA", help=f"the private rows: {TABLES}")
    join.add_argument(
        "--helper", action="store_true", help="take part without rows, as a noise helper"
    )
    join.add_argument("--name", required=True, help="of this party, as the coordinator knows it")
    join.add_argument(
        "--token-file", type=Path, required=True, metavar="FILE", help="this party's token"
    )
    join.add_argument(
        "--journal",
        type=Path,
        required=True,
        metavar="FILE",
        help="where it is written down what was answered, so that nothing is answered twice",
    )
    join.add_argument("--mask-key", type=Path, metavar="FILE", help="with --roster: the own key")
    join.add_argument("--ca", type=Path, metavar="FILE", help="who signs the server's certificate")
    join.add_argument("--cert", type=Path, metavar="FILE", help="this party's certificate")
    join.add_argument("--key", type=Path, metavar="FILE", help="its private key")
    _add_plain(join)
    join.add_argument(
        "--patience",
        type=float,
        default=3600.0,
        metavar="SECONDS",
        help="how long to try again where nobody answers (default: an hour)",
    )
    join.add_argument("--show", action="store_true", help="show what is agreed to, and stop")
    join.add_argument("-o", "--output", type=Path, metavar="MODEL", help="keep the model, too")
    add_force(join)
    join.set_defaults(run=_join)


def _add_token(actions: Any) -> None:
    token = command(
        actions, "token", "make the token of a party; the coordinator does", examples=_TOKEN
    )
    token.add_argument("name", metavar="NAME", help="of the party")
    token.add_argument(
        "--tokens", type=Path, required=True, metavar="FILE", help="digests, for `serve`"
    )
    token.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="for the party alone"
    )
    token.set_defaults(run=_token)


def _add_roster(actions: Any) -> None:
    roster = command(
        actions, "roster", "list who takes part behind masks, with public keys", examples=_ROSTER
    )
    for kind, text in (("worker", "a party with rows"), ("helper", "a noise helper")):
        roster.add_argument(
            f"--{kind}",
            type=_named_key,
            action="append",
            default=[],
            metavar="NAME=PUBLIC.pem",
            help=f"{text}; `openssl pkey -in KEY -pubout` makes the public half",
        )
    roster.add_argument(
        "--minimum", type=int, default=2, metavar="K", help="workers of a sum at least (default 2)"
    )
    roster.add_argument("-o", "--output", type=Path, required=True, metavar="ROSTER")
    add_force(roster)
    roster.set_defaults(run=_roster)


def _add_agreement(parser: argparse.ArgumentParser) -> None:
    """Add what all sides have in common."""
    parser.add_argument(
        "--plan", type=Path, required=True, metavar="FILE", help="a plan of `dpsco plan -o`"
    )
    parser.add_argument(
        "--schema", type=Path, metavar="FILE", help="what the columns of everybody's tables hold"
    )
    parser.add_argument(
        "--roster", type=Path, metavar="FILE", help="sums behind masks, of `dpsco federated roster`"
    )


def _add_plain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plain-http",
        action="store_true",
        help="without TLS, on this machine alone, to try it out",
    )


def speaker(action: str) -> Callable[[str], None]:
    """Return what prints a sentence about the run; nothing of a row is ever among them."""

    def say(sentence: str) -> None:
        print(f"dpsco federated {action}: {sentence}", file=sys.stderr, flush=True)

    return say


def _serve(options: argparse.Namespace, session: Session) -> int:
    from .federated_serve import serve

    return serve(options, session)


def _join(options: argparse.Namespace, session: Session) -> int:
    from .federated_join import join

    return join(options, session)


def _token(options: argparse.Namespace, session: Session) -> int:
    from ..federated.transport.tokens import issue

    issue(options.name, options.tokens, options.output)
    print(f"token of {options.name}: {options.output}. Bring it to the party, and delete it here.")
    return 0


def _roster(options: argparse.Namespace, session: Session) -> int:
    from ..federated.pairwise_masks import Roster, load_public_key
    from .outputs import Outputs

    inputs = [path for _, path in (*options.worker, *options.helper)]
    with Outputs(force=options.force, inputs=inputs) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output)
        names = [name for name, _ in (*options.worker, *options.helper)]
        if len(set(names)) < len(names):
            raise ParameterError("a party is named twice: give each its own name and key.")
        workers = {name: load_public_key(path) for name, path in options.worker}
        helpers = {name: load_public_key(path) for name, path in options.helper}
        roster = Roster(workers, helpers, options.minimum)
        outputs.text(draft, roster.to_json() + "\n")
        outputs.commit()
    print(
        f"roster of {len(roster.keys)} parties: {options.output}. Everybody needs this very file."
    )
    return 0


def _named_key(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if not (name and path):
        raise argparse.ArgumentTypeError(f"must be NAME=FILE, got {text!r}")
    return name, Path(path)
