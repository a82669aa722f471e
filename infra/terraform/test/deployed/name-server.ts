// The private zones as Envoy asks for them: addresses of the tasks that run. It answers one question by UDP with an address, and
// says of any other name that there is none, as Cloud Map does of a slot without a task.
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";

const HEAD_BYTES = 12;
/** Type and class, behind the name. */
const QUESTION_TAIL_BYTES = 4;
const TYPE_A = 1;
const NO_SUCH_NAME = 3;
const TTL_S = 5;

export class NameServer {
  readonly address: string;
  readonly #socket: Socket;
  readonly #asked = new Set<string>();

  private constructor(socket: Socket, address: string) {
    this.#socket = socket;
    this.address = address;
  }

  /** `find` answers with a name's IPv4 address. */
  static async start(address: string, find: (name: string) => string | undefined): Promise<NameServer> {
    const socket = createSocket("udp4");
    const server = new NameServer(socket, address);
    socket.on("message", (question, { address: from, port }) => {
      socket.send(server.#answer(question, find), port, from);
    });
    socket.bind(0, address);
    await once(socket, "listening");
    socket.unref();
    return server;
  }

  get port(): number {
    return this.#socket.address().port;
  }

  /** Names that it was asked for. */
  get asked(): ReadonlySet<string> {
    return this.#asked;
  }

  close(): void {
    this.#socket.close();
  }

  #answer(question: Buffer, find: (name: string) => string | undefined): Buffer {
    const labels: string[] = [];
    let at = HEAD_BYTES;
    for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
      labels.push(question.subarray(at + 1, at + 1 + length).toString("latin1"));
      at += 1 + length;
    }
    const end = at + 1 + QUESTION_TAIL_BYTES;
    const name = labels.join(".").toLowerCase();
    this.#asked.add(name);
    const address = find(name);
    const isKnown = address !== undefined && question.readUInt16BE(at + 1) === TYPE_A;
    const head = Buffer.from(question.subarray(0, end));
    // An authoritative answer; recursion was asked for and is there. One question, and an answer or none.
    head.writeUInt16BE(0x8580 | (address === undefined ? NO_SUCH_NAME : 0), 2);
    for (const [index, count] of [1, isKnown ? 1 : 0, 0, 0].entries())
      head.writeUInt16BE(count, 4 + 2 * index);
    if (!isKnown) return head;
    const record = Buffer.alloc(16);
    // The name is that of the question.
    record.writeUInt16BE(0xc000 | HEAD_BYTES, 0);
    record.writeUInt16BE(TYPE_A, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(TTL_S, 6);
    record.writeUInt16BE(4, 10);
    Buffer.from(address.split(".").map(Number)).copy(record, 12);
    return Buffer.concat([head, record]);
  }
}
