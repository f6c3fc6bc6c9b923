/** The start of a session with servers that are not what they should be: none of them gets the password, none is trusted. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { PostgresAddress } from '../../address.ts';
import { Handshake } from './handshake.ts';
import { type Message, MessageReader } from './wire-messages.ts';

const PASSWORD = 'correct horse battery';
const ADDRESS: PostgresAddress = {
  hosts: [{ host: 'db.example', port: 5432 }],
  database: 'holdfast',
  user: 'holdfast',
  password: PASSWORD,
  tls: 'disable',
  tlsRootFile: undefined,
  connectionsMax: 1,
  applicationName: 'holdfast',
  passFile: undefined,
  tlsOwn: undefined,
  channelBinding: 'prefer',
  connectMs: undefined,
};
const [OK, CLEARTEXT, MD5, SASL, CONTINUE, FINAL] = [0, 3, 5, 10, 11, 12];

/** An authentication message as the server makes it. */
function asks(kind: number, rest: string | Uint8Array = ''): Message {
  const body = Buffer.concat([Buffer.alloc(8), Buffer.from(rest)]);
  body.writeInt32BE(body.length, 0);
  body.writeInt32BE(kind, 4);
  const [message] = [...new MessageReader().read(Buffer.concat([Buffer.from('R'), body]))];
  if (message === undefined) throw new Error('no message');
  return message;
}

const textOf = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('latin1');

/** Up to the point where the server is to answer our nonce. */
function begun(): { handshake: Handshake; nonce: string } {
  const handshake = new Handshake(ADDRESS);
  const first = textOf(handshake.answer(asks(SASL, 'SCRAM-SHA-256\0\0')));
  return { handshake, nonce: /r=(.*)$/.exec(first)?.[1] ?? '' };
}

test('begins with the user and the database, without the password', () => {
  const start = textOf(new Handshake(ADDRESS).begin());
  expect(start).toContain('user\0holdfast\0database\0holdfast\0');
  expect(start).not.toContain(PASSWORD);
});

test('answers the older methods as they are defined', () => {
  expect(textOf(new Handshake(ADDRESS).answer(asks(CLEARTEXT)))).toContain(PASSWORD);
  const salt = new Uint8Array([1, 2, 3, 4]);
  const hex = (...parts: (string | Uint8Array)[]) => {
    const hasher = new Bun.CryptoHasher('md5');
    for (const part of parts) hasher.update(part);
    return hasher.digest('hex');
  };
  const expected = `md5${hex(hex(PASSWORD, ADDRESS.user), salt)}`;
  expect(textOf(new Handshake(ADDRESS).answer(asks(MD5, salt)))).toContain(expected);
});

describe('a server', () => {
  test('that accepts us without its proof is not trusted', () => {
    const { handshake, nonce } = begun();
    const proof = textOf(handshake.answer(asks(CONTINUE, `r=${nonce}abc,s=c2FsdA==,i=4096`)));
    expect(proof).toContain('p=');
    expect(proof).not.toContain(PASSWORD);
    expect(() => handshake.answer(asks(OK))).toThrow('proof');
  });

  test('that asks for a proof and accepts us without one is not trusted', () => {
    const { handshake } = begun();
    expect(() => handshake.answer(asks(OK))).toThrow('proof');
    expect(() => handshake.assertDone()).toThrow('end of the authentication');
  });

  test('that proves nothing is not trusted', () => {
    const { handshake, nonce } = begun();
    handshake.answer(asks(CONTINUE, `r=${nonce}abc,s=c2FsdA==,i=4096`));
    expect(() => handshake.answer(asks(FINAL, 'v=AAAA'))).toThrow();
    expect(() => handshake.answer(asks(OK))).toThrow();
  });

  test('that knows no method of ours is refused, and so is one that asks for a missing password', () => {
    expect(() => new Handshake(ADDRESS).answer(asks(SASL, 'SCRAM-SHA-1\0\0'))).toThrow('SCRAM-SHA-256');
    expect(() => new Handshake(ADDRESS).answer(asks(7))).toThrow('not supported');
    const without = new Handshake({ ...ADDRESS, password: undefined });
    expect(() => without.answer(asks(CLEARTEXT))).toThrow('none was given');
  });

  test('that says anything at all never gets the password from SCRAM', () => {
    const property = fc.property(
      fc.constantFrom(CONTINUE, FINAL, SASL),
      fc.uint8Array({ maxLength: 80 }),
      (kind, said) => {
        const { handshake } = begun();
        let answer = '';
        try {
          answer = textOf(handshake.answer(asks(kind, said)));
        } catch (error) {
          answer = String(error);
        }
        expect(answer).not.toContain(PASSWORD);
      },
    );
    fc.assert(property);
  });
});
