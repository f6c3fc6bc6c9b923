/** A client of the operator API bounds every answer in memory and time. */

import { afterAll, describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import { ANSWER_BYTES_MAX, AnswerRefused, parseAnswer, readLines, Silence } from './answer-bounds.ts';
import { LINES_MEDIA_TYPE } from './answer-lines.ts';
import { callOperation } from './call-operation.ts';

const servers: ReturnType<typeof Bun.serve>[] = [];
afterAll(async () => {
  for (const server of servers) await server.stop(true);
});

/** The client's error for such an answer. */
async function ask(answer: () => Response, silenceMsMax?: number, readMsMax?: number): Promise<string> {
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer });
  servers.push(server);
  const address = { kind: 'url', url: server.url.origin, token: undefined } as const;
  const { signal } = new AbortController();
  return callOperation(address, 'listApps', {}, { signal }, silenceMsMax, readMsMax).then(
    (output) => `answered ${JSON.stringify(output)}`,
    (error: Error) => `${error.name}: ${error.message}`,
  );
}

/** An endless answer. */
function endless(type: string): Response {
  const piece = new Uint8Array(MIB_BYTES).fill(0x20);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await Bun.sleep(0);
      controller.enqueue(piece);
    },
  });
  return new Response(body, { headers: { 'content-type': type } });
}

describe('an answer', () => {
  test('that is well comes whole', async () => {
    const whole = { apps: [] };
    expect(await ask(() => Response.json(whole))).toBe('answered {"apps":[]}');
    const lines = `\n{"progress":"begun"}\n\n${JSON.stringify({ output: whole })}\n`;
    expect(await ask(() => new Response(lines, { headers: { 'content-type': LINES_MEDIA_TYPE } }))).toBe(
      'answered {"apps":[]}',
    );
  });

  test.each([{}, 5, null, { apps: {} }, { apps: [{ appId: 'a' }] }])(
    'of another form (%j) is refused',
    async (body) => {
      expect(await ask(() => Response.json(body))).toContain(
        'which is no answer of a listener for operators',
      );
    },
  );

  // JSON.parse takes 440 MB for 5 MB of the first.
  test.each(['['.repeat(100_000), `{"apps":[${'[],'.repeat(2_000_000)}[]]}`])(
    'that is small as text and large in memory is refused',
    async (body) => {
      for (const type of ['application/json', LINES_MEDIA_TYPE]) {
        const said = await ask(() => new Response(`${body}\n`, { headers: { 'content-type': type } }));
        expect(said).toContain('more levels or parts than any of this API');
      }
    },
  );

  test('may have any number of brackets in its texts', () => {
    const text = JSON.stringify({ detail: `\\"${'[{"'.repeat(100)}\\` });
    expect(parseAnswer(text)).toEqual(JSON.parse(text));
  });

  test.each(['application/json', LINES_MEDIA_TYPE])(
    'of %s that never ends is given up',
    async (type) => {
      expect(await ask(() => endless(type))).toContain(`larger than ${ANSWER_BYTES_MAX / MIB_BYTES} MiB`);
    },
    120_000,
  );

  test.each(['application/json', LINES_MEDIA_TYPE])('of %s that drips for ever is given up', async (type) => {
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(20);
        controller.enqueue(Uint8Array.of(0x20));
      },
    });
    const headers = { 'content-type': type };
    expect(await ask(() => new Response(body, { headers }), 200)).toContain('nothing whole came');
  });

  test('whose lines never end is given up', async () => {
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(10);
        controller.enqueue(new TextEncoder().encode('{"progress":"on"}\n'));
      },
    });
    const headers = { 'content-type': LINES_MEDIA_TYPE };
    expect(await ask(() => new Response(body, { headers }), 400, 800)).toContain('did not end within 1 s');
  });

  test('that is packed is refused', async () => {
    const packed = Bun.gzipSync(new Uint8Array(10 * MIB_BYTES));
    const headers = { 'content-encoding': 'gzip', 'content-type': 'application/json' };
    expect(await ask(() => new Response(packed, { headers }))).toContain('Content-Encoding');
  });

  test.each(['{}', '5', 'null', '{"progress":7}', '{"problem":null}'])(
    'with the line %s is refused',
    async (line) => {
      const headers = { 'content-type': LINES_MEDIA_TYPE };
      expect(await ask(() => new Response(`${line}\n`, { headers }))).toContain('none that this API gives');
    },
  );
});

test('a silence that is too long ends the request', async () => {
  const silence = new Silence(new AbortController().signal, 30, Number.POSITIVE_INFINITY, 10);
  await new Promise((resolve) => silence.signal.addEventListener('abort', resolve));
  expect(silence.refusal).toBeInstanceOf(AnswerRefused);
});

test('lines are the same however they are cut', async () => {
  const text = 'one\n\ntwo zwölf\nthree\nnot ended';
  for (let size = 1; size < text.length; size += 1) {
    const bytes = new TextEncoder().encode(text);
    async function* cut(): AsyncGenerator<Uint8Array> {
      for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
    }
    expect(await Array.fromAsync(readLines(cut()))).toEqual(['one', 'two zwölf', 'three']);
  }
});
