"""The load: publishers with pages that need an ad now.

Pages come at their own pace, whatever the exchange does.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter

from exchange import Exchange
from highwater import HighwaterError

PUBLISHERS = 3
#: Average pause between two pages of one publisher.
PAUSE_S = 0.3
BIDS = 4
#: How long an auction takes bids.
BIDDING_S = 0.05
#: Pages that may wait for their ad at the same time. Beyond that, a page goes out without one.
PAGES_MAX = 50
#: Share of advertisers that read the bids before they bid, and of publishers that read them again.
LOOKING = 0.2


class Publishers:
    def __init__(self, exchange: Exchange) -> None:
        self.tally: Counter[str] = Counter()
        self._exchange = exchange
        self._pages: set[asyncio.Task[None]] = set()
        self._publishers = [asyncio.create_task(self._publish(f"publisher-{n}")) for n in range(PUBLISHERS)]

    async def stop(self) -> None:
        """No more pages; returns when those under way have had their answer."""
        for publisher in self._publishers:
            publisher.cancel()
        await asyncio.gather(*self._pages)

    async def _publish(self, publisher: str) -> None:
        while True:
            await asyncio.sleep(PAUSE_S * (0.5 + random.random()))
            if len(self._pages) >= PAGES_MAX:
                self.tally["pages without an ad"] += 1
                continue
            page = asyncio.create_task(self._fill_slot(publisher))
            self._pages.add(page)
            page.add_done_callback(self._pages.discard)

    async def _fill_slot(self, publisher: str) -> None:
        """One page: the workflow of the exchange, from the publisher's request to the ad."""
        auction = str(uuid.uuid4())
        bids: list[asyncio.Task[None]] = []
        try:
            await self._exchange.create_auction(auction, publisher=publisher, slot="banner")
            bids += [asyncio.create_task(self._bid(auction, f"advertiser-{n}")) for n in range(BIDS)]
            await asyncio.sleep(BIDDING_S)
            sale = await self._exchange.close_auction(auction)
            if sale is None:
                self.tally["auctions lost before they closed"] += 1
            else:
                self.tally["sold" if sale.advertiser is not None else "without a bid"] += 1
            if random.random() < LOOKING:
                await self._exchange.standing_bids(auction, safe=True)
        except HighwaterError as error:
            self.tally[f"ended with {error.code}"] += 1
        finally:
            await asyncio.gather(*bids)

    async def _bid(self, auction: str, advertiser: str) -> None:
        """Some advertisers think for longer than the auction is open."""
        await asyncio.sleep(random.random() * 1.2 * BIDDING_S)
        try:
            if random.random() < LOOKING:
                await self._exchange.standing_bids(auction, safe=False)
            await self._exchange.new_bid(auction, advertiser=advertiser, cents=random.randint(1, 500))
        except HighwaterError as error:
            self.tally[f"ended with {error.code}"] += 1
