"""Groups of exceptions, which nurseries raise."""

from __future__ import annotations

from collections.abc import Iterator


class one_error:
    """Re-raise a group of one exception, or of several of one class, as the first of them.

    A hidden nursery then does not show in callers' `except`. Nothing here refers to the exceptions afterwards: else they, their
    tracebacks and frames would refer to each other, and keep a whole session until a collection of cycles.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or (leaf := single(error)) is error:
            return
        context = leaf.__context__
        try:
            raise leaf from None
        finally:
            leaf.__context__ = context
            del error, leaf, context, trace


def single(error: BaseException) -> BaseException:
    """Return the first of a group of one exception, or of several of one class; any other error as it is."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(leaves_of(error))
    return leaves[0] if len({type(leaf) for leaf in leaves}) == 1 else error


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested groups; an exception that is not a group is its own leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves_of(inner)
    else:
        yield error
