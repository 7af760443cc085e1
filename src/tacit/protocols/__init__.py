"""Protocols: what tasks say, what the curator releases, what tasks make of it.

A protocol is a handful of pure functions on a stack of tasks; an engine decides where they run.
To add one, write a class with the methods of :class:`~tacit.protocols.protocol.Protocol` in a file
of its own here; nothing in this package knows an engine or an estimator.
"""

from tacit.protocols.protocol import Protocol

__all__ = ["Protocol"]
