import { describe, expect, test } from 'bun:test';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { readBody } from './received-body.ts';

describe('a body that a gateway receives', () => {
  const request = (headers: IncomingMessage['headers']): IncomingMessage =>
    Object.assign(Readable.from([Buffer.from('abcd')]), { headers }) as unknown as IncomingMessage;

  test('is taken as it is', async () => {
    for (const headers of [{}, { 'content-encoding': 'Identity' }])
      expect(String(await readBody(request(headers)))).toBe('abcd');
  });

  test.each(['gzip', 'br', 'identity, gzip'])(
    'is refused with Content-Encoding %s: nobody who reads it would be told',
    async (encoding) => {
      const reading = readBody(request({ 'content-encoding': encoding }));
      expect(await reading.catch((error: unknown) => error)).toMatchObject({ status: 415 });
    },
  );
});
