import { afterEach, expect, test } from 'bun:test';
import { fetchOutside, findProxyFailure } from './outgoing-fetch.ts';

const given = process.env.HTTP_PROXY;
afterEach(() => {
  if (given === undefined) delete process.env.HTTP_PROXY;
  else process.env.HTTP_PROXY = given;
});

test('a proxy that refuses is named, not the server behind it', async () => {
  using proxy = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('', { status: 407 }) });
  process.env.HTTP_PROXY = `http://someone:secret@127.0.0.1:${proxy.port}`;
  const failure = await fetchOutside('http://server.test/', {}).catch(findProxyFailure);
  expect(failure).toStartWith(`the proxy 127.0.0.1:${proxy.port} (HTTP_PROXY) answered 407: it wants a user`);
});
