/** A server that sends messages at unusual times, even byte by byte: none is taken for an answer that it is not. */
import { afterEach, describe, expect, test } from 'bun:test';
import { createServer, type Server, type Socket } from 'node:net';
import type { PostgresAddress } from '../../address.ts';
import { PostgresConnection } from './connection.ts';
import { PostgresPool } from './connection-pool.ts';
import { POSTGRES_LIMITS } from './limits.ts';

/** A message as the server makes it. */
function says(type: string, body: Uint8Array | string = ''): Buffer {
  const bytes = Buffer.from(body as string);
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(bytes.length + 4, 1);
  return Buffer.concat([head, bytes]);
}

const int = (bits: 16 | 32, value: number): Buffer => {
  const bytes = Buffer.alloc(bits / 8);
  if (bits === 16) bytes.writeInt16BE(value);
  else bytes.writeInt32BE(value);
  return bytes;
};

const LET_IN = says('R', int(32, 0));
const READY = says('Z', 'I');
const IN_TRANSACTION = says('Z', 'T');
const NOTICE = says('N', 'SNOTICE\0C00000\0Mby the way\0\0');
const PARAMETER = says('S', 'TimeZone\0UTC\0');
const NOTIFICATION = says('A', Buffer.concat([int(32, 1), Buffer.from('channel\0\0')]));
const failure = (code: string): Buffer => says('E', `SERROR\0C${code}\0Mplanted\0\0`);
/** of text */
const columns = (...names: string[]): Buffer => {
  const tail = [int(32, 0), int(16, 0), int(32, 25), int(16, -1), int(32, -1), int(16, 0)];
  const each = names.flatMap((name) => [Buffer.from(`${name}\0`), ...tail]);
  return says('T', Buffer.concat([int(16, names.length), ...each]));
};
const row = (...texts: string[]): Buffer => {
  const each = texts.flatMap((text) => [int(32, text.length), Buffer.from(text)]);
  return says('D', Buffer.concat([int(16, texts.length), ...each]));
};
/** to a statement that is new to the connection */
const firstOf = (...names: string[]): Buffer[] => [
  ...[says('1'), says('t', int(16, 0))],
  ...[columns(...names), says('2')],
];
const FIRST = firstOf('a');
const DONE = says('C', 'SELECT 1\0');
const SET_UP = [...FIRST, DONE, ...firstOf('state', 'schema'), row('as set up', 'public'), DONE, READY];
/** to the guard of the first flight, and of those after it */
const [FIRST_GUARD, GUARD] = [
  [...FIRST, DONE],
  [says('2'), DONE],
];

function addressAt(port: number, tls: PostgresAddress['tls']): PostgresAddress {
  const names = { database: 'd', user: 'u', password: 'correct horse' };
  return {
    ...names,
    hosts: [{ host: '127.0.0.1', port }],
    tls,
    tlsRootFile: undefined,
    connectionsMax: 1,
    applicationName: 'holdfast',
    passFile: undefined,
    tlsOwn: undefined,
    channelBinding: 'prefer',
    connectMs: undefined,
  };
}

type Step = readonly Buffer[] | ((socket: Socket) => void);

let server: Server | undefined;
let sockets = 0;
afterEach(() => {
  server?.close();
  server = undefined;
});

/** Answers the start with `start`, then each Sync with the next step, beginning with that of the settings; a step begins after its guard. */
async function serve(
  steps: readonly Step[],
  start: readonly Buffer[] = [LET_IN, READY],
): Promise<PostgresAddress> {
  sockets = 0;
  const made = createServer((socket) => {
    sockets += 1;
    const left: Step[] = [SET_UP, ...steps];
    const guards = [[], FIRST_GUARD];
    let heard = Buffer.alloc(0);
    let hasBegun = false;
    const tell = (step: Step | undefined): void => {
      if (typeof step === 'function') step(socket);
      else socket.write(Buffer.concat(step ?? []));
    };
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      heard = Buffer.concat([heard, bytes as Buffer]);
      for (;;) {
        const head = hasBegun ? 1 : 0;
        if (heard.length < head + 4 || heard.length < head + heard.readInt32BE(head)) return;
        const type = String.fromCharCode(heard[0] as number);
        heard = heard.subarray(head + heard.readInt32BE(head));
        if (!hasBegun) tell(start);
        else if (type === 'S') {
          socket.write(Buffer.concat(guards.shift() ?? GUARD));
          tell(left.shift());
        }
        hasBegun = true;
      }
    });
  });
  server = made;
  await new Promise<void>((resolve) => made.listen(0, '127.0.0.1', () => resolve()));
  const { port } = made.address() as { port: number };
  return addressAt(port, 'disable');
}

const LIMITS = POSTGRES_LIMITS;
const open = (address: PostgresAddress) => PostgresConnection.open(address, LIMITS, { roundTrips: 0 });
const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error) => error.code,
  );

describe('a statement outside a transaction', () => {
  test('fails if its commit fails, whatever was answered before', async () => {
    const connection = await open(
      await serve([
        [...FIRST, row('x'), DONE, failure('40001'), READY],
        [says('2'), row('y'), DONE, READY],
      ]),
    );
    expect(await codeOf(connection.query('SELECT a'))).toBe('40001');
    expect((await connection.query('SELECT a')).rows).toEqual([{ a: 'y' }]);
    await connection.end();
  });

  test('is not done before the server is ready', async () => {
    const connection = await open(
      await serve([(socket) => socket.end(Buffer.concat([...FIRST, row('x'), DONE]))]),
    );
    expect(await codeOf(connection.query('SELECT a'))).toBe('CONNECTION_CLOSED');
    expect(connection.isUsable).toBe(false);
  });
});

test('notices, parameters and notifications may come at any time, and in any pieces', async () => {
  const asides = [NOTICE, PARAMETER, NOTIFICATION];
  const answer = Buffer.concat(
    [...FIRST, row('x'), row('y'), DONE, READY].flatMap((message) => [...asides, message]),
  );
  const connection = await open(
    await serve([
      async (socket) => {
        for (const byte of answer) {
          socket.write(Buffer.of(byte));
          await new Promise((resolve) => setImmediate(resolve));
        }
        socket.write(Buffer.concat(asides));
      },
    ]),
  );
  expect((await connection.query('SELECT a')).rows).toEqual([{ a: 'x' }, { a: 'y' }]);
  expect(connection.isIdle).toBe(true);
  await connection.end();
});

test('a server that hangs up says why to all that was asked', async () => {
  const connection = await open(await serve([(socket) => socket.end(failure('57P01'))]));
  const asked = [connection.query('SELECT a'), connection.query('SELECT a')];
  expect(await Promise.all(asked.map(codeOf))).toEqual(['57P01', '57P01']);
});

test('a message that is not of PostgreSQL ends the connection', async () => {
  for (const noise of [
    Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
    says('D', int(16, 9)),
    says('T', int(16, 3)),
  ]) {
    const connection = await open(await serve([[...FIRST, noise]]));
    expect(await codeOf(connection.query('SELECT a'))).toBe('CONNECTION_CLOSED');
    server?.close();
  }
});

test('a server that begins before it has accepted us is not trusted', async () => {
  expect(await codeOf(open(await serve([], [READY])))).toBe('CONNECTION_CLOSED');
});

describe('TLS', () => {
  /** A server that answers the request for TLS with `answer`, and hears what comes then. */
  async function answering(answer: Uint8Array | string, tls: PostgresAddress['tls']) {
    const heard: Buffer[] = [];
    const made = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => {
        socket.on('data', (bytes) => {
          heard.push(bytes as Buffer);
          socket.destroy();
        });
        socket.write(answer);
      });
    });
    server = made;
    await new Promise<void>((resolve) => made.listen(0, '127.0.0.1', () => resolve()));
    const { port } = made.address() as { port: number };
    return { failure: await codeOf(open(addressAt(port, tls))), heard: Buffer.concat(heard) };
  }

  test('that is required and refused ends it, before anybody is named', async () => {
    for (const tls of ['require', 'verify-full'] as const) {
      const { failure: code, heard } = await answering('N', tls);
      expect({ code, heard: heard.length }).toEqual({ code: 'CONNECTION_CLOSED', heard: 0 });
    }
  });

  test('that is only preferred may be refused', async () => {
    const { heard } = await answering('N', 'prefer');
    expect(heard.toString('latin1')).toContain('user\0u\0');
  });

  test('that was granted may not be preceded by other bytes', async () => {
    for (const tls of ['prefer', 'require'] as const) {
      const { failure: code, heard } = await answering(Buffer.concat([Buffer.from('S'), LET_IN, READY]), tls);
      expect({ code, heard: heard.length }).toEqual({ code: 'CONNECTION_CLOSED', heard: 0 });
    }
  });
});

test('an invalid parameter ends the connection before half a message is sent', async () => {
  const connection = await open(await serve([]));
  await expect(connection.query('SELECT $1', [undefined as unknown as string])).rejects.toThrow();
  expect(connection.isUsable).toBe(false);
});

test('a connection that is given back inside a transaction is not used again', async () => {
  const pool = new PostgresPool(await serve([[...FIRST, DONE, IN_TRANSACTION]]), LIMITS);
  await pool.lend((connection) => connection.query('BEGIN'));
  await pool.lend(async (connection) => expect(connection.isIdle).toBe(true));
  expect(sockets).toBe(2);
  await pool.close();
});
