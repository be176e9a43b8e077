"""``federated serve``: the coordinator, from its files to the model's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .federated import speaker

if TYPE_CHECKING:
    import ssl

    from ..data.schema.schema import Schema
    from ..federated.terms import Agreement
    from ..solvers.base import Result
    from .outputs import Outputs
    from .session import Session


def serve(options: argparse.Namespace, session: Session) -> int:
    """Run the command."""
    from ..data.schema.schema import Schema
    from ..federated.sides import load_agreement
    from ..privacy.certificate_text import spent
    from .outputs import Outputs

    host, port = _address(options.listen)
    inputs = [options.plan, options.schema, options.roster, options.tokens, options.odometer]
    inputs += [options.tls_cert, options.tls_key, options.client_ca, options.checkpoint]
    with Outputs(force=options.force, inputs=inputs) as outputs:
        session.outputs, session.checkpoint = outputs, options.checkpoint
        draft = outputs.reserve(options.output)
        agreement = load_agreement(options.plan, options.roster)
        schema = None if options.schema is None else Schema.load(options.schema)
        if schema is not None:
            agreement.check_schema(schema)

        def finish(result: Result) -> None:
            _write(outputs, draft, agreement, result, schema)

        session.pay_from(options)
        result = _run(options, session, agreement, host, port, finish)
    print(f"model: {options.output}\nspent: {spent(result.certificate)}")
    if result.certificate.reproducible:
        print("SEEDED: anybody who knows the seed can remove the noise. Do not publish this.")
    return 0


def _run(
    options: argparse.Namespace,
    session: Session,
    agreement: Agreement,
    host: str,
    port: int,
    finish: Any,
) -> Result:
    """Carry the run out; whatever can be refused is refused before anything is paid."""
    from ..federated.transport import Tokens
    from ..federated.transport import serve as listen
    from ..federated.transport.gathering import opened
    from ..federated.transport.server import listening
    from ..federated.transport.tls import check_address

    say, tokens = speaker("serve"), Tokens.load(options.tokens)
    tls = _tls(options, say)
    check_address(host, secure=tls is not None, plain=options.plain_http)
    say(f"a run of this plan:\n{agreement}")
    with (
        listening(host, port) as listener,
        opened(
            agreement,
            tokens.digests,
            checkpoint=options.checkpoint,
            odometer=session.odometer,
            seed=options.seed,
            minimum=options.minimum,
            timeout=options.timeout,
            say=say,
        ) as gathering,
    ):
        return listen(
            gathering,
            tokens,
            host=host,
            port=port,
            tls=tls,
            plain=options.plain_http,
            listener=listener,
            finish=finish,
        )


def _tls(options: argparse.Namespace, say: Any) -> ssl.SSLContext | None:
    """Return the certificates; None where none is named."""
    from ..federated.transport.tls import server_context

    files = (options.tls_cert, options.tls_key, options.client_ca)
    if all(path is None for path in files):
        return None
    if any(path is None for path in files):
        raise ParameterError("--tls-cert, --tls-key and --client-ca go together: pass all three.")
    return server_context(*files, say=say)


def _write(
    outputs: Outputs,
    draft: Path | None,
    agreement: Agreement,
    result: Result,
    schema: Schema | None,
) -> None:
    """Write the model, before anybody hears that there is one."""
    outputs.json(draft, agreement.saved(result, schema).to_json(), indent=1)
    outputs.commit()


def _address(text: str) -> tuple[str, int]:
    """Return host and port; IPv6 addresses stand in brackets."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ParameterError(f"--listen must be HOST:PORT, got {text!r}; port 0 takes a free one.")
    return host, int(port)
