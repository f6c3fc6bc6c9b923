/**
 * Replaces PgBouncer 1.21 and later: in transaction mode each transaction gets the session that waited longest, and named
 * statements are prepared again where they are missing. In session mode a connection keeps its session.
 */
import { createHash } from 'node:crypto';
import { createConnection, createServer, type Socket } from 'node:net';
import type { PostgresAddress } from '../../address.ts';
import { Handshake } from '../wire/handshake.ts';
import { type Message, MessageReader } from '../wire/wire-messages.ts';

export interface Pooler {
  readonly port: number;
  mode: 'session' | 'transaction';
  /** what each session of PostgreSQL answers to a statement of one column, in a script */
  askAll(sql: string): Promise<readonly string[]>;
  close(): Promise<void>;
}

const CODE_BYTES = 4;
const SSL_REQUEST = 80_877_103;
const IDLE = 'I'.charCodeAt(0);

/** One message with its frame. */
function frame(type: string, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + CODE_BYTES, 1);
  return Buffer.concat([head, body]);
}

const bodyOf = ({ bytes, start, end }: Message): Buffer => Buffer.from(bytes.subarray(start, end));
const letIn = Buffer.concat([frame('R', Buffer.alloc(4)), frame('K', Buffer.alloc(8))]);

/** A session of PostgreSQL that clients get in turn. */
class Backend {
  readonly known = new Set<string>();
  readonly parameters: Buffer[] = [];
  readonly #socket: Socket;
  readonly #messages: { type: string; body: Buffer }[] = [];
  #wake: (() => void) | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    const reader = new MessageReader();
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      for (const message of reader.read(bytes as Buffer))
        this.#messages.push({ type: message.type, body: bodyOf(message) });
      this.#wake?.();
    });
  }

  static async open(address: PostgresAddress): Promise<Backend> {
    const [at] = address.hosts;
    const backend = new Backend(createConnection({ host: at?.host ?? '', port: at?.port ?? 0 }));
    const handshake = new Handshake({ ...address, applicationName: 'pooler' });
    backend.send(handshake.begin());
    for (;;) {
      const { type, body } = await backend.next();
      if (type === 'Z') return backend;
      if (type === 'E') throw new Error(body.toString());
      if (type === 'S') backend.parameters.push(frame(type, body));
      if (type !== 'R') continue;
      const answer = handshake.answer({ type, bytes: body, start: 0, end: body.length });
      if (answer !== undefined) backend.send(answer);
    }
  }

  send(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  async next(): Promise<{ readonly type: string; readonly body: Buffer }> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async askText(sql: string): Promise<string> {
    this.send(frame('Q', Buffer.from(`${sql}\0`)));
    let text = '';
    for (;;) {
      const { type, body } = await this.next();
      if (type === 'D') text = body.subarray(6).toString();
      if (type === 'Z') return text;
    }
  }

  end(): void {
    this.#socket.destroy();
  }
}

type Sent = readonly [type: string, body: Buffer];

/** A flight of a client, with the names of statements that the session knows. */
function translate(flight: readonly Sent[], statements: Map<string, Buffer>, { known }: Backend) {
  const out: Buffer[] = [];
  /** what became of each Parse: sent for the client, or by the pooler itself, or answered without the server */
  const parses: ('client' | 'own' | 'answered')[] = [];
  const nameIn = (body: Buffer, at: number) => body.toString('utf8', at, body.indexOf(0, at));
  const realName = (text: Buffer) => `P${createHash('sha256').update(text).digest('hex').slice(0, 30)}`;
  const prepare = (text: Buffer, how: 'client' | 'own') => {
    const real = realName(text);
    if (!known.has(real)) out.push(frame('P', Buffer.concat([Buffer.from(`${real}\0`), text])));
    if (!known.has(real) || how === 'client') parses.push(known.has(real) ? 'answered' : how);
    known.add(real);
    return real;
  };
  for (const [type, body] of flight) {
    if (type === 'P') {
      const name = nameIn(body, 0);
      const text = body.subarray(name.length + 1);
      statements.set(name, text);
      prepare(text, 'client');
    } else if (type === 'B') {
      const portal = nameIn(body, 0);
      const name = nameIn(body, portal.length + 1);
      const real = prepare(statements.get(name) ?? Buffer.alloc(0), 'own');
      const rest = body.subarray(portal.length + 1 + name.length + 1);
      out.push(frame('B', Buffer.concat([Buffer.from(`${portal}\0${real}\0`), rest])));
    } else if (type === 'D') {
      const real = prepare(statements.get(nameIn(body, 1)) ?? Buffer.alloc(0), 'own');
      out.push(frame('D', Buffer.from(`S${real}\0`)));
    } else out.push(frame(type, body));
  }
  return { out: Buffer.concat(out), parses };
}

/** The answer to a flight, as the client expects it; and whether a transaction is open. */
async function answerOf(backend: Backend, parses: string[]) {
  const answer: Buffer[] = [];
  const answerKnown = () => {
    while (parses[0] === 'answered') {
      parses.shift();
      answer.push(frame('1'));
    }
  };
  for (;;) {
    answerKnown();
    const { type, body } = await backend.next();
    if (type === '1' && parses.shift() === 'own') continue;
    answer.push(frame(type, body));
    if (type === 'Z') return { answer: Buffer.concat(answer), isOpen: body[0] !== IDLE };
  }
}

class Client {
  readonly #socket: Socket;
  readonly #pool: Pool;
  readonly #statements = new Map<string, Buffer>();
  #heard: Buffer = Buffer.alloc(0);
  #isIn = false;
  #flight: Sent[] = [];
  #backend: Backend | undefined;
  #work = Promise.resolve();

  constructor(socket: Socket, pool: Pool) {
    this.#socket = socket;
    this.#pool = pool;
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      this.#heard = Buffer.concat([this.#heard, bytes as Buffer]);
      this.#read();
    });
    socket.on('close', () => {
      this.#work = this.#work.then(async () => {
        await this.#backend?.askText('ROLLBACK');
        this.#leave();
      });
    });
  }

  #read(): void {
    for (;;) {
      const head = this.#isIn ? 1 : 0;
      if (this.#heard.length < head + CODE_BYTES) return;
      const end = head + this.#heard.readInt32BE(head);
      if (this.#heard.length < end) return;
      const type = this.#isIn ? String.fromCharCode(this.#heard[0] as number) : '';
      const body = this.#heard.subarray(head + CODE_BYTES, end);
      this.#heard = this.#heard.subarray(end);
      if (type === '') this.#greet(body);
      else this.#take(type, Buffer.from(body));
    }
  }

  #greet(body: Buffer): void {
    if (body.readInt32BE(0) === SSL_REQUEST) {
      this.#socket.write('N');
      return;
    }
    this.#isIn = true;
    this.#socket.write(Buffer.concat([letIn, ...this.#pool.parameters, frame('Z', Buffer.from('I'))]));
  }

  #take(type: string, body: Buffer): void {
    if (type === 'X') return;
    this.#flight.push([type, body]);
    if (type !== 'S' && type !== 'Q') return;
    const flight = this.#flight;
    this.#flight = [];
    this.#work = this.#work.then(() => this.#fly(flight));
  }

  async #fly(flight: readonly Sent[]): Promise<void> {
    this.#backend ??= await this.#pool.take();
    const { out, parses } = translate(flight, this.#statements, this.#backend);
    this.#backend.send(out);
    const { answer, isOpen } = await answerOf(this.#backend, parses);
    if (!isOpen && this.#pool.mode === 'transaction') this.#leave();
    if (!this.#socket.destroyed) this.#socket.write(answer);
  }

  #leave(): void {
    if (this.#backend !== undefined) this.#pool.give(this.#backend);
    this.#backend = undefined;
  }
}

/** The sessions, and who waits for one. */
class Pool {
  mode: Pooler['mode'] = 'transaction';
  readonly all: readonly Backend[];
  readonly #free: Backend[];
  readonly #waiting: ((backend: Backend) => void)[] = [];

  constructor(all: readonly Backend[]) {
    this.all = all;
    this.#free = [...all];
  }

  get parameters(): readonly Buffer[] {
    return this.all[0]?.parameters ?? [];
  }

  async take(): Promise<Backend> {
    return this.#free.shift() ?? new Promise((resolve) => this.#waiting.push(resolve));
  }

  give(backend: Backend): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(backend);
    else next(backend);
  }
}

/** Starts with this many sessions, all open before the first client connects. */
export async function startPooler(address: PostgresAddress, sessions: number): Promise<Pooler> {
  const pool = new Pool(await Promise.all(Array.from({ length: sessions }, () => Backend.open(address))));
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    new Client(socket, pool);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  return {
    port: (server.address() as { port: number }).port,
    get mode() {
      return pool.mode;
    },
    set mode(mode) {
      pool.mode = mode;
    },
    askAll: (sql) => Promise.all(pool.all.map((backend) => backend.askText(sql))),
    async close() {
      for (const socket of sockets) socket.destroy();
      for (const backend of pool.all) backend.end();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
