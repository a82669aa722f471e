"""The part of the client that does no I/O, shared by the sync and the async client.

What a request means is written once, as a generator that yields effects (``effects``) and returns the result; a driver
sends, sleeps and calls back, and decides nothing. Time is in seconds, but for names that end in ``_ms``.

- ``wire``, ``errors``, ``ids``, ``params``, ``sql``: what goes over the wire and comes back.
- ``tuning``, ``runtime``, ``retry``, ``endpoints``, ``requests``: what is sent, where, and what after a failure.
- ``effects``, ``service``, ``pinned``, ``interactive``, ``transact``: the calls, as generators.
- ``history``, ``book``, ``watch``: promises, what settles them, and what must be asked.
- ``sse``, ``stream``: the one stream of marks, and asking for marks where none gets through.
- ``session``: what one line of work has committed or read.
"""
