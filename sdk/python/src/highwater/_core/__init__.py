"""The part of the client that does no I/O, shared by both clients.

Each request is written once, as a generator that yields effects (``effects``) and returns the
result. A driver sends, sleeps and calls back, and decides nothing. Times are in milliseconds, as
names say, except in effects: these are in seconds, as drivers need them.

- ``wire``, ``errors``, ``ids``, ``params``, ``sql``: data on the wire, in both directions.
- ``tuning``, ``runtime``, ``retry``, ``endpoints``, ``requests``: what to send, where, and what to
  do after a failure.
- ``effects``, ``service``, ``pinned``, ``interactive``, ``transact``: the calls, as generators.
- ``sse``: the framing of the stream of marks.
- ``history``, ``pending_set``: promises, what settles them, and what to ask trackers.
- ``session``: what a session has committed or read.
"""
