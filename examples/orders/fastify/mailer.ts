// The e-mails, and how they go out.
import { createTransport } from "nodemailer";
import { type OrderRecord } from "./book.ts";

export type Send = (order: OrderRecord) => Promise<void>;

const EMAILS = {
  confirmed: { subject: "Your order is confirmed", text: "It is safe with us, and on its way." },
  lost: { subject: "Your order was lost", text: "We are sorry: a failure took it. Please order again." },
};

export function mailer(smtpUrl: string): Send {
  const transport = createTransport(smtpUrl);
  return async (order) => {
    if (order.state === "pending") throw new Error("nothing is to be said yet");
    const { subject, text } = EMAILS[order.state];
    await transport.sendMail({
      from: "shop@example.org",
      to: order.customer,
      subject,
      text: `${order.item} (${order.id})\n\n${text}\n`,
      // An e-mail that is sent twice can be recognised by this.
      messageId: `<${order.id}.${order.state}@shop.example.org>`,
    });
  };
}
