/** Failures of a response after the handler passed it to the runtime. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Handler } from '../http/handler.ts';
import { type HandlerWorld, openHandlerWorld } from '../http/test/handler-fixture.ts';
import { parseServeConfig } from './config.ts';
import { listen } from './listener.ts';

const PATH = `/v1/apps/app/spaces/space/cas/nodes/${'a'.repeat(64)}/content`;

let world: HandlerWorld;
let folder: string;

beforeAll(async () => {
  world = await openHandlerWorld();
  folder = await mkdtemp(join(tmpdir(), 'holdfast-listener-'));
  await symlink('loop', join(folder, 'loop'));
});

afterAll(async () => {
  await world.close();
  await rm(folder, { recursive: true, force: true });
});

/** The answer to a caller whose content is a file that the runtime finds it cannot open. */
async function askForFile(name: string, corsOrigins: '*' | readonly string[] = '*'): Promise<Response> {
  const handler: Handler = {
    ...world.handler({ corsOrigins }),
    handleSpace: () => new Response(Bun.file(join(folder, name))),
  };
  const config = parseServeConfig({ listen: '127.0.0.1:0' }, {});
  const listener = listen(config, 0, handler);
  try {
    const response = await fetch(`http://127.0.0.1:${listener.port}${PATH}`);
    const text = await response.text();
    return new Response(text, { status: response.status, headers: response.headers });
  } finally {
    await listener.drain();
  }
}

test.each(['loop', 'nothing'])(
  'content that cannot be opened when it is to be sent (%s) is a storage failure, answered as any',
  async (name) => {
    world.failures.length = 0;
    const response = await askForFile(name);
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({
      error: 'SERVICE_UNAVAILABLE',
      message: expect.stringContaining('try again'),
    });
    const headers = Object.fromEntries(response.headers);
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'retry-after': expect.stringMatching(/^[1-9]\d*$/),
      'server-timing': expect.stringMatching(/^cas_edge;dur=/),
      'timing-allow-origin': '*',
      'access-control-allow-origin': '*',
    });
    expect(world.failures).toHaveLength(1);
    expect(world.failures[0]).toMatchObject({ kind: 'storage', requestId: headers['x-request-id'] });
  },
);

test('the origins that may read it are not widened', async () => {
  const response = await askForFile('nothing', ['https://app.example']);
  expect(response.status).toBe(503);
  expect(response.headers.get('access-control-allow-origin')).toBeNull();
});
