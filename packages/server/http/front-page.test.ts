import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type HandlerWorld, openHandlerWorld } from './test/handler-fixture.ts';

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8';

let world: HandlerWorld;
beforeAll(async () => {
  world = await openHandlerWorld();
});
afterAll(() => world.close());

async function answerTo(accept: string | undefined, path = '/', method = 'GET'): Promise<Response> {
  const headers = accept === undefined ? {} : { accept };
  return world.handler().handle(new Request(`http://h${path}`, { method, headers }));
}

const typeOf = (response: Response): string | null => response.headers.get('content-type');

describe('GET / of a browser', () => {
  test('is a 404 whose page says what this is and where to read on', async () => {
    const response = await answerTo(BROWSER);
    expect(response.status).toBe(404);
    expect(typeOf(response)).toBe('text/html; charset=utf-8');
    const page = await response.text();
    for (const said of ['Holdfast', 'docs/api.md', 'holdfast push', '/health']) expect(page).toContain(said);
    expect(page).not.toMatch(/https?:|src=|href=|<script/);
  });

  test('cannot be kept, framed, guessed at, or load anything', async () => {
    const { headers } = await answerTo(BROWSER);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; .*frame-ancestors 'none'$/,
    );
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('server-timing')).toMatch(/^cas_edge;dur=/);
  });

  test('has a style that its policy lets in', async () => {
    const response = await answerTo(BROWSER);
    const style = /<style>(.*)<\/style>/s.exec(await response.text())?.[1] ?? '';
    const digest = new Bun.CryptoHasher('sha256').update(style).digest('base64');
    expect(response.headers.get('content-security-policy')).toContain(`'sha256-${digest}'`);
  });

  test('holds nothing of the request', async () => {
    const response = await world.handler().handle(
      new Request('http://evil.test/?q=<i>x</i>', {
        headers: { accept: BROWSER, referer: 'http://evil.test' },
      }),
    );
    const page = await response.text();
    expect(page).toBe(await (await answerTo(BROWSER)).text());
    expect(page).not.toContain('evil');
  });

  test('has the same headers for HEAD', async () => {
    const [got, head] = [await answerTo(BROWSER), await answerTo(BROWSER, '/', 'HEAD')];
    expect([head.status, typeOf(head), await head.text()]).toEqual([404, typeOf(got), '']);
    expect(Number(head.headers.get('content-length'))).toBe((await got.arrayBuffer()).byteLength);
  });
});

describe('every other answer stays JSON:', () => {
  const cases: readonly [string, string | undefined, string?, string?][] = [
    ['no Accept', undefined],
    ['anything', '*/*'],
    ['any text', 'text/*'],
    ['JSON', 'application/json'],
    ['HTML that is not wanted', 'text/html;q=0, application/json'],
    ['HTML that is not wanted, in other words', 'application/json, text/html; level=1; q=0.00'],
    ['a name that only begins so', 'text/html5'],
    ['a name that only ends so', 'x-text/html'],
    ['another path', BROWSER, '/index.html'],
    ['a path of two slashes', BROWSER, '//'],
    ['another method', BROWSER, '/', 'POST'],
    ['a Space route that is not there', BROWSER, '/v1/apps/a/spaces/s/cas'],
  ];
  test.each(cases.map(([name, ...args]) => ({ name, args })))('$name', async ({ args }) => {
    const response = await answerTo(...args);
    expect([response.status, typeOf(response)]).toEqual([404, 'application/json']);
    const { error, message } = (await response.json()) as Record<string, string>;
    expect(error).toBe('NOT_FOUND');
    expect(message).toContain('the API is under /v1/apps/{appId}/spaces/{spaceId}/');
  });

  test.each([
    'text/html',
    'TEXT/HTML; charset=utf-8',
    'application/json, text/html;q=0.1',
    'text/html;q=0.05,a/b',
  ])('but HTML is %s', async (accept) => {
    expect(typeOf(await answerTo(accept))).toBe('text/html; charset=utf-8');
  });
});
