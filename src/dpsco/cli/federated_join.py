"""``federated join``: a party with rows, or a noise helper, from its files to the run's end."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .federated import speaker

if TYPE_CHECKING:
    import ssl

    from ..data.schema.schema import Schema
    from ..federated.silo import Party
    from ..federated.terms import Agreement
    from ..solvers.base import Result
    from .session import Session


def join(options: argparse.Namespace, session: Session) -> int:
    """Run the command."""
    from ..data.schema.schema import Schema
    from ..federated.sides import load_agreement
    from .outputs import Outputs

    say, agreement = speaker("join"), load_agreement(options.plan, options.roster)
    schema = None if options.schema is None else Schema.load(options.schema)
    say(f"{options.name} agrees to:\n{agreement}")
    if options.show:
        return 0
    inputs = [options.plan, options.schema, options.roster, options.table, options.journal]
    inputs += [options.token_file, options.mask_key, options.ca, options.cert, options.key]
    with Outputs(force=options.force, inputs=inputs) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output)
        result = _run(options, agreement, schema, say)
        if draft is not None:
            outputs.json(draft, agreement.saved(result, schema).to_json(), indent=1)
        outputs.commit()
    print("the run is over" + (f". model: {options.output}" if options.output else ""))
    return 0


def _run(
    options: argparse.Namespace, agreement: Agreement, schema: Schema | None, say: Any
) -> Result:
    """Take part until the run is over."""
    from ..federated.transport.client import Line
    from ..federated.transport.client import join as take_part
    from ..federated.transport.tokens import load_word

    with contextlib.ExitStack() as stack:
        line = Line(
            options.url,
            load_word(options.token_file),
            tls=_tls(options),
            plain=options.plain_http,
            patience=options.patience,
            say=say,
        )
        stack.callback(line.close)
        party = _party(options, agreement, schema)
        stack.callback(party.close)
        return take_part(party, line, say=say)


def _party(options: argparse.Namespace, agreement: Agreement, schema: Schema | None) -> Party:
    """Return who takes part."""
    from ..federated.sides import open_party
    from .progress import Bar

    with Bar("reading") as bar:
        return open_party(
            agreement,
            name=options.name,
            journal=options.journal,
            table=options.table,
            schema=schema,
            mask_key=options.mask_key,
            helper=options.helper,
            progress=bar,
        )


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    """Return whom to believe, and this party's certificate; None for plain HTTP."""
    from ..federated.transport.tls import client_context

    if options.ca is None:
        if options.cert is not None or options.key is not None:
            raise ParameterError("--cert and --key go with --ca, who signs the server's.")
        return None
    return client_context(options.ca, options.cert, options.key)
