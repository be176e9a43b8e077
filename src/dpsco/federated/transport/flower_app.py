"""The same run as a Flower app: a `ServerApp` with the coordinator, a `ClientApp` with a party.

Flower carries the messages, and who may carry them is its business: TLS, and the keys with which
SuperNodes show who they are. In an app's pyproject.toml:

    [tool.flwr.app.components]
    serverapp = "dpsco.federated.transport.flower_app:server_app"
    clientapp = "dpsco.federated.transport.flower_app:client_app"

Flower starts a process for each message, so a party's memory is its journal alone. What an app
raises Flower sends to the server, with its text: so nothing is raised here, and of an error that
nobody foresaw not even the text is told.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...data.schema.schema import Schema
from ...errors import DpscoError, MissingExtraError, ParameterError
from ...privacy.odometer.odometer import Odometer
from ..messages import Request
from ..sides import load_agreement, open_party
from ..terms import Terms
from ..worker import AnsweredError
from .gathering import Gathering, RunOverError, opened, refusal

_RECORD = "dpsco"
_WAIT = 0.2  # seconds between two looks for nodes and rounds
_STRANGER = 15.0  # seconds until a node that was refused is asked again
_REPLY = 60.0  # seconds for one reply, by default; who is later is asked again
_APPS = ("server_app", "client_app")


def __getattr__(name: str) -> Any:
    """Return `server_app` or `client_app`; Flower is imported then, and not before."""
    if name not in _APPS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "a Flower app needs flwr. Install it in an environment of its own: pip install "
            "'dpsco[flower,parquet]'."
        ) from None
    return _server_app() if name == "server_app" else _client_app()


# -- the party's side ------------------------------------------------------------------------------


def _client_app() -> Any:
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator]
    def query(message: Message, context: Context) -> Message:
        said = replied(dict(message.content[_RECORD]), dict(context.node_config))
        return Message(RecordDict({_RECORD: ConfigRecord(said)}), reply_to=message)

    return app


def replied(question: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, str]:
    """Return what a party says to a question of the server; nothing is raised.

    Args:
        question: "terms", or a "request".
        node: the SuperNode's configuration: plan, name, journal, table, schema, and where sums are
            masked roster and mask-key.
    """
    try:
        return _reply(question, node)
    except AnsweredError as problem:
        return {"abstains": str(problem)}
    except DpscoError as problem:
        return {"refused": str(problem)}
    except Exception as problem:  # its text may quote rows
        return {"refused": f"{refusal(problem)} ({type(problem).__name__})"}


def _reply(question: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, str]:
    name = str(_setting(node, "name"))
    agreement = load_agreement(Path(_setting(node, "plan")), _path(node, "roster"))
    if "terms" in question:
        reason = agreement.terms.objection(Terms.from_json(question["terms"]))
        if reason:
            raise ParameterError(f"{name!r} does not take part: the server has {reason}.")
        return {"party": name, "terms": agreement.terms.to_json()}
    schema = _path(node, "schema")
    party = open_party(
        agreement,
        name=name,
        journal=Path(_setting(node, "journal")),
        table=_path(node, "table"),
        schema=None if schema is None else Schema.load(schema),
        mask_key=_path(node, "mask-key"),
    )
    with party:
        return {"answer": party.answer(Request.from_json(question["request"])).to_json()}


# -- the coordinator's side ------------------------------------------------------------------------


def _server_app() -> Any:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        carry_out(grid, dict(context.run_config))

    return app


def carry_out(grid: Any, settings: Mapping[str, Any]) -> None:
    """Carry a run out over Flower's grid, and write the model.

    Args:
        grid: Flower's.
        settings: the run's configuration: plan, parties (their names, with spaces between), output,
            and if need be roster, schema, checkpoint, odometer, minimum, timeout, seed,
            reply-timeout.
    """
    agreement = load_agreement(Path(_setting(settings, "plan")), _path(settings, "roster"))
    output, schema = Path(_setting(settings, "output")), _path(settings, "schema")
    columns = None if schema is None else Schema.load(schema)
    if columns is not None:
        agreement.check_schema(columns)
    ledger = _path(settings, "odometer")
    with (
        opened(
            agreement,
            str(_setting(settings, "parties")).split(),
            checkpoint=_path(settings, "checkpoint"),
            odometer=None if ledger is None else Odometer(ledger),
            seed=settings.get("seed"),
            minimum=settings.get("minimum"),
            timeout=settings.get("timeout"),
            say=lambda sentence: print(f"dpsco: {sentence}", flush=True),
        ) as gathering,
        ThreadPoolExecutor(1) as threads,
    ):
        run = threads.submit(gathering.run)
        try:
            _exchange(grid, gathering, run, float(settings.get("reply-timeout", _REPLY)))
        finally:
            gathering.stop()
        agreement.saved(run.result(), columns).save(output)
        gathering.say(f"model: {output}")


def _exchange(grid: Any, gathering: Gathering, run: Future[Any], patience: float) -> None:
    """Bring requests to nodes and answers back until the run is over."""
    nodes: dict[int, str] = {}  # party by node
    strangers: dict[int, float] = {}  # nodes that do not take part, and when they were asked
    while not run.done():
        here = set(grid.get_node_ids())
        nodes = {node: party for node, party in nodes.items() if node in here}
        again = time.monotonic() - _STRANGER
        unknown = {node for node in here - set(nodes) if strangers.get(node, again) <= again}
        hello = {"terms": gathering.agreement.terms.to_json()}
        for node, said in _asked(grid, dict.fromkeys(unknown, hello), patience):
            if _let_in(gathering, nodes, said):
                nodes[node] = said["party"]
            else:
                strangers[node] = time.monotonic()
        requests = _requests(gathering, nodes)
        for node, said in _asked(grid, requests, patience):
            _take(gathering, nodes[node], said)
        if not requests and not unknown:
            time.sleep(_WAIT)


def _asked(grid: Any, questions: Mapping[int, dict[str, str]], patience: float) -> Iterable[Any]:
    """Yield what nodes reply; who does not in time, or fails, is left out."""
    from flwr.app import ConfigRecord, Message, RecordDict

    messages = [
        Message(
            content=RecordDict({_RECORD: ConfigRecord(question)}),
            message_type="query",
            dst_node_id=node,
        )
        for node, question in questions.items()
    ]
    if not messages:
        return
    for reply in grid.send_and_receive(messages, timeout=patience):
        if not reply.has_error():
            yield reply.metadata.src_node_id, dict(reply.content[_RECORD])


def _let_in(gathering: Gathering, nodes: Mapping[int, str], said: Mapping[str, Any]) -> bool:
    """Return whether a node takes part: with the same terms, and a name that nobody else has."""
    party = str(said.get("party", ""))
    try:
        if "refused" in said:
            raise ParameterError(str(said["refused"]))
        if party not in gathering.parties or party in nodes.values():
            raise ParameterError(f"a node calls itself {party!r}, which is not its to use.")
        gathering.agree(party, Terms.from_json(str(said.get("terms"))))
    except DpscoError as problem:
        gathering.say(f"refused a node: {problem}")
        return False
    return True


def _requests(gathering: Gathering, nodes: Mapping[int, str]) -> dict[int, dict[str, str]]:
    """Return what nodes are to answer now."""
    requests = {}
    for node, party in nodes.items():
        with contextlib.suppress(RunOverError):
            request = gathering.ask(party)
            if request is not None:
                requests[node] = {"request": request.to_json()}
    return requests


def _take(gathering: Gathering, party: str, said: Mapping[str, Any]) -> None:
    """Take an answer, or that there is none."""
    try:
        if "answer" in said:
            gathering.take(party, str(said["answer"]).encode())
            return
        reason = str(said.get("abstains", said.get("refused", "it says nothing")))
        gathering.say(f"{party} does not answer: {reason}")
        gathering.abstain(party, gathering.coordinator.round)
    except DpscoError as problem:
        gathering.say(f"refused {party}: {problem}")


# -- settings --------------------------------------------------------------------------------------


def _setting(settings: Mapping[str, Any], name: str) -> Any:
    """Return a setting that must be there."""
    if settings.get(name) in (None, ""):
        raise ParameterError(
            f"the Flower app needs {name}: put it into the node's or run's config."
        )
    return settings[name]


def _path(settings: Mapping[str, Any], name: str) -> Path | None:
    """Return a path among the settings; None if it is not there, or empty."""
    return Path(str(settings[name])) if settings.get(name) else None
