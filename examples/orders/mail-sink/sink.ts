// A mail server that keeps what it is given, and can refuse a receiver once, as servers do with
// unknown senders.
import { once } from "node:events";
import { type AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";

export interface Email {
  readonly to: string;
  readonly subject: string;
  readonly messageId: string;
}

export interface MailSinkOptions {
  /** Default: a free one. */
  readonly port?: number;
  /** Receivers whose first e-mail is refused for now. */
  readonly greylisted?: readonly string[];
  readonly onEmail?: (email: Email) => void;
}

export class MailSink implements AsyncDisposable {
  readonly url: string;
  readonly emails: Email[];
  readonly #server: SMTPServer;

  private constructor(server: SMTPServer, emails: Email[], port: number) {
    this.#server = server;
    this.emails = emails;
    this.url = `smtp://127.0.0.1:${String(port)}`;
  }

  static async start(options: MailSinkOptions = {}): Promise<MailSink> {
    const { port = 0, greylisted = [], onEmail = () => undefined } = options;
    const unknown = new Set(greylisted);
    const emails: Email[] = [];
    const server = new SMTPServer({
      authOptional: true,
      disabledCommands: ["STARTTLS", "AUTH"],
      onRcptTo: ({ address }, _session, answer) => {
        if (unknown.delete(address))
          answer(Object.assign(new Error("greylisted, come again"), { responseCode: 451 }));
        else answer();
      },
      onData: (stream, { envelope }, answer) => {
        text(stream).then((raw) => {
          // A long header goes on in the next line.
          const headers = raw.slice(0, raw.indexOf("\r\n\r\n")).replace(/\r\n\s+/g, " ");
          const header = (name: string): string =>
            new RegExp(`^${name}: *(.*)$`, "im").exec(headers)?.[1] ?? "";
          for (const { address } of envelope.rcptTo) {
            const email = { to: address, subject: header("subject"), messageId: header("message-id") };
            emails.push(email);
            onEmail(email);
          }
          answer();
        }, answer);
      },
    });
    const listening = server.listen(port, "127.0.0.1");
    await once(listening, "listening");
    return new MailSink(server, emails, (listening.address() as AddressInfo).port);
  }

  to(receiver: string): string[] {
    return this.emails.filter(({ to }) => to === receiver).map(({ subject }) => subject);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(resolve);
    });
  }
}
