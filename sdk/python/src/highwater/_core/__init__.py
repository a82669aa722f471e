"""The part of the client that does no I/O, shared by the sync and the async client.

What a request means is written once, as a generator that yields effects (``effects``) and returns the result; a driver
sends, sleeps and calls back, and decides nothing. Times are in milliseconds and names say so, but for
those of effects, which are in seconds as the drivers need them.

- ``wire``, ``errors``, ``ids``, ``params``, ``sql``: what goes over the wire and comes back.
- ``tuning``, ``runtime``, ``retry``, ``endpoints``, ``requests``: what is sent, where, and what after a failure.
- ``effects``, ``service``, ``pinned``, ``interactive``, ``transact``: the calls, as generators.
- ``sse``: the framing of the stream of marks.
- ``history``, ``pending_set``: promises, what settles them, and what must be asked.
- ``session``: what one line of work has committed or read.
"""
