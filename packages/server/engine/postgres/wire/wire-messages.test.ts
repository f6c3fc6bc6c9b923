/** Bytes from the network are parsed the same way wherever they were split, and no input hangs the parser or is misread. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import {
  type Message,
  MessageReader,
  MessageWriter,
  parseColumns,
  parseCompletion,
  parseFailure,
  parseRow,
} from './wire-messages.ts';

const INT8 = 20;
const TEXT = 25;
const BOOL = 16;

/** A message as the server makes it. */
function message(type: string, body: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

function bodyOf({ bytes, start, end }: Message): Buffer {
  return Buffer.from(bytes.subarray(start, end));
}

function single(type: string, body: Uint8Array): Message {
  const [read] = [...new MessageReader().read(message(type, body))];
  if (read === undefined) throw new Error('no message');
  return read;
}

function rowBody(values: readonly (string | null)[]): Buffer {
  const parts = values.map((value) => {
    const bytes = Buffer.from(value ?? '');
    const length = Buffer.alloc(4);
    length.writeInt32BE(value === null ? -1 : bytes.length);
    return Buffer.concat([length, bytes]);
  });
  const count = Buffer.alloc(2);
  count.writeInt16BE(values.length);
  return Buffer.concat([count, ...parts]);
}

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((value) => Buffer.from(value));
const types = fc.constantFrom('D', 'T', 'C', 'E', 'Z', 'R');

describe('messages', () => {
  test('are read alike wherever the network cuts them', () => {
    const sent = fc.array(fc.tuple(types, bytes(200)), { maxLength: 12 });
    const cuts = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 8 });
    const property = fc.property(sent, cuts, (messages, sizes) => {
      const stream = Buffer.concat(messages.map(([type, body]) => message(type, body)));
      const reader = new MessageReader();
      const read: [string, Buffer][] = [];
      for (let at = 0, turn = 0; at < stream.length; turn += 1) {
        const size = sizes[turn % sizes.length] as number;
        for (const one of reader.read(stream.subarray(at, at + size))) read.push([one.type, bodyOf(one)]);
        at += size;
      }
      expect(read).toEqual(messages);
    });
    fc.assert(property);
  });

  test('of an impossible length are refused', () => {
    for (const length of [-1, 0, 3, 0x7fffffff]) {
      const bad = message('D', new Uint8Array(8));
      bad.writeInt32BE(length, 1);
      expect(() => [...new MessageReader().read(bad)]).toThrow();
    }
  });

  test('of any content are understood or refused, never read past their end', () => {
    const secret = Buffer.from('the next message');
    const property = fc.property(types, bytes(64), (type, body) => {
      const reader = new MessageReader();
      const [one] = [...reader.read(Buffer.concat([message(type, body), message('D', secret)]))];
      if (one === undefined) throw new Error('no message');
      for (const parse of [
        () => parseColumns(one),
        () => parseRow(one, [{ name: 'a', type: TEXT }]),
        () => parseCompletion(one),
        () => parseFailure(one).message,
      ]) {
        let told: string;
        try {
          told = JSON.stringify(parse());
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
          continue;
        }
        expect(told).not.toContain('next message');
      }
    });
    fc.assert(property, { numRuns: 500 });
  });
});

describe('rows', () => {
  test('come back as they were sent, by the types of their columns', () => {
    const property = fc.property(
      fc.maxSafeInteger(),
      fc.string({ unit: 'grapheme' }),
      fc.boolean(),
      (n, text, flag) => {
        const body = rowBody([String(n), text, flag ? 't' : 'f', null]);
        const columns = [INT8, TEXT, BOOL, TEXT].map((type, index) => ({ name: `c${index}`, type }));
        expect(parseRow(single('D', body), columns)).toEqual({ c0: n, c1: text, c2: flag, c3: null });
      },
    );
    fc.assert(property);
  });

  test('that do not fit their description are refused', () => {
    const row = single('D', rowBody(['1', '2']));
    expect(() => parseRow(row, [{ name: 'a', type: TEXT }])).toThrow();
  });
});

test('what was done is told with its rows', () => {
  const done = (tag: string) => parseCompletion(single('C', Buffer.from(`${tag}\0`)));
  expect(done('INSERT 0 5')).toEqual({ command: 'INSERT', count: 5 });
  expect(done('SELECT 3')).toEqual({ command: 'SELECT', count: 3 });
  expect(done('COMMIT')).toEqual({ command: 'COMMIT', count: 0 });
  expect(done('CREATE TABLE')).toEqual({ command: 'CREATE TABLE', count: 0 });
});

test('a failure tells its code and constraint', () => {
  const failure = parseFailure(single('E', Buffer.from('SERROR\0C23505\0Mtwice\0nnodes_pkey\0\0')));
  expect([failure.message, failure.code, failure.constraint]).toEqual(['twice', '23505', 'nodes_pkey']);
});

test('what is written is whole messages, whatever the values', () => {
  const values = fc.array(
    fc.oneof(fc.string(), fc.maxSafeInteger(), fc.constant(null), fc.array(fc.string())),
  );
  const property = fc.property(values, values, (first, second) => {
    const writer = new MessageWriter();
    const sent = [...writer.parse('s0', 'SELECT 1').describe('s0').bind('s0', first).execute().sync().take()];
    const again = [...writer.bind('s0', second).execute().sync().take()];
    const read = [...new MessageReader().read(Uint8Array.from([...sent, ...again]))];
    expect(read.map(({ type }) => type).join('')).toBe('PDBESBES');
  });
  fc.assert(property);
  expect(() => new MessageWriter().parse('s0', 'SELECT \0')).toThrow();
});
