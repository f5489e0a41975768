"""Keeping requests of a role for some projects within these projects.

Handlers see a catalog without other projects (`Catalog.of_projects`). A project that the request names must be one of them; where it
names none, the only one is meant, and one of several must be named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from gw.admin.keys import project_of
from gw.admin.logs import UnknownRequestError
from gw.errors import ForbiddenError, RequestError, UnknownKeyError, UnknownProjectError
from gw.web.rights import Reach
from gw.web.route import Request


async def confine(request: Request, projects: frozenset[str]) -> None:
    """Check a request of somebody who has these projects only, and fill in the project where it is needed.

    Raises ForbiddenError, RequestError, UnknownProjectError, UnknownKeyError, UnknownRequestError.
    """
    check = _CHECKS.get(request.route.need.reach)
    if check is not None:
        await check(request, projects)


async def _all(_request: Request, _projects: frozenset[str]) -> None:
    raise ForbiddenError(what="this needs a role for all projects")


async def _query(request: Request, projects: frozenset[str]) -> None:
    named = next((value for name, value in request.fields if name == "project"), "")
    if named:
        _known(named, projects)
    else:
        request.fields = [field for field in request.fields if field[0] != "project"] + [("project", _only(projects))]


async def _project(request: Request, projects: frozenset[str]) -> None:
    _known(request.name, projects)


async def _key(request: Request, projects: frozenset[str]) -> None:
    if project_of(request.registrar, request.name) not in projects:
        raise UnknownKeyError(name=request.name)


async def _record(request: Request, projects: frozenset[str]) -> None:
    record = await request.gateway.store.request(request.name)
    if record is None or record.project not in projects:
        raise UnknownRequestError(name=request.name)


async def _body(request: Request, projects: frozenset[str]) -> None:
    named = request.body.get("project")
    if named is None:
        request.body = {**request.body, "project": _only(projects)}
    elif isinstance(named, str):  # else the handler refuses it
        _known(named, projects)


_CHECKS: Mapping[Reach, Callable[[Request, frozenset[str]], Awaitable[None]]] = {
    "all": _all, "query": _query, "project": _project, "key": _key, "record": _record, "body": _body,
}  # fmt: skip


def _known(name: str, projects: frozenset[str]) -> None:
    if name not in projects:
        raise UnknownProjectError(name=name, available=tuple(sorted(projects)))


def _only(projects: frozenset[str]) -> str:
    if len(projects) != 1:
        raise RequestError(what=f"name one of your projects: {', '.join(sorted(projects)) or 'you have none'}", param="project")
    return next(iter(projects))
