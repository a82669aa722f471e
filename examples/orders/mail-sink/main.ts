// The mail server for trying the shops: prints what it gets. `node main.ts [PORT]`
import { MailSink } from "./sink.ts";

const sink = await MailSink.start({
  port: Number(process.argv[2] ?? 2525),
  onEmail: ({ to, subject }) => {
    console.log(`to ${to}: ${subject}`);
  },
});
console.log(`takes e-mails at ${sink.url}`);
for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => {
    void sink[Symbol.asyncDispose]();
  });
