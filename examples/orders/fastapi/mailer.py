"""The e-mails, and how they go out."""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import Awaitable, Callable
from email.message import EmailMessage
from urllib.parse import urlsplit

from book import OwedOrder

Send = Callable[[OwedOrder], Awaitable[None]]

_EMAILS = {
    "confirmed": ("Your order is confirmed", "It is safe with us, and on its way."),
    "lost": ("Your order was lost", "We are sorry: a failure took it. Please order again."),
}
_TIMEOUT_S = 10


def mailer(smtp_url: str) -> Send:
    server = urlsplit(smtp_url)

    def deliver(message: EmailMessage) -> None:
        with smtplib.SMTP(server.hostname or "", server.port or 25, timeout=_TIMEOUT_S) as smtp:
            smtp.send_message(message)

    async def send(order: OwedOrder) -> None:
        subject, text = _EMAILS[order.state]
        message = EmailMessage()
        message["From"] = "shop@example.org"
        message["To"] = order.customer
        message["Subject"] = subject
        # An e-mail that is sent twice can be recognised by this.
        message["Message-ID"] = f"<{order.id}.{order.state}@shop.example.org>"
        message.set_content(f"{order.item} ({order.id})\n\n{text}\n")
        await asyncio.to_thread(deliver, message)

    return send
