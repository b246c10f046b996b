"""Errors: each is a grapeshot.Error and one of Python's own, with the program's sentence."""


class Error(Exception):
    """Whatever ends a call because of what it was given, or of the system."""


class InvalidArgument(Error, ValueError):
    """The call is wrong: a shape, a dtype, a range, an option."""


class NotFound(Error, FileNotFoundError, ValueError):
    """No file, mutation, criterion, ... of that name."""


class ParseError(Error, ValueError):
    """A file is malformed; the message begins with path:line:column."""


class Unsupported(Error, NotImplementedError):
    """Well formed, but beyond this version: an ONNX operator, say."""


class SystemFailure(Error, OSError):
    """The operating system or the device refused."""


class InternalError(Error, RuntimeError):
    """A bug in grapeshot."""


def first_line(error):
    """What an error of somebody else says, shortened."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}".rstrip(": ")


class ModelError(Error, RuntimeError):
    """A Python function that is tested as a model raised, or returned what is no output.

    What it raised itself is the ``__cause__``.
    """


class GrapeshotWarning(UserWarning):
    """What the program says in a note."""
