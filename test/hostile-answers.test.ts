/** A hostile server against the command line and the SDK: answers that unpack to gigabytes cost no memory. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { createBundle } from '../packages/client/index.ts';
import { FakeSpace } from '../packages/client/test/fake-space-fixture.ts';
import { resultOf } from './support/command-result.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { type BombServer, startBombServer } from './support/packed-bomb.ts';
import { ROOT } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
const HASH = 'ab'.repeat(32);

const SDK_PROGRAM = `
  import { createClient } from './packages/client/index.ts';
  const client = createClient({ baseUrl: process.env.HOLDFAST_URL, appId: 'a', spaceId: 's', token: 't', retry: { attemptsMax: 2 } });
  const calls = [
    () => client.getUsage(),
    () => client.readMetadata('${HASH}'),
    async () => { for await (const _ of (await client.readContent('${HASH}')).body); },
  ];
  for (const call of calls) await call().then(() => console.log('fine'), (error) => console.log(error.code));
`;

interface Outcome {
  readonly exitCode: number;
  readonly text: string;
  readonly peakBytes: number;
}

async function run(command: readonly string[], url: string): Promise<Outcome> {
  const child = Bun.spawn([...command], {
    cwd: ROOT,
    env: {
      ...process.env,
      HOLDFAST_URL: url,
      HOLDFAST_APP: 'a',
      HOLDFAST_SPACE: 's',
      HOLDFAST_TOKEN: 't',
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const { exitCode, stdout, stderr } = await resultOf(child);
  return { exitCode, text: stdout + stderr, peakBytes: child.resourceUsage()?.maxRSS ?? Number.NaN };
}

const folder = makeTempFolder('hostile-answers');
const bundle = join(folder.path, 'bundle.car');
const servers: BombServer[] = [];
let harmless: ReturnType<typeof Bun.serve>;
beforeAll(async () => {
  const space = new FakeSpace();
  await Bun.write(bundle, new Response(createBundle(space.client(), [space.store('a node')])));
  servers.push(await startBombServer(4 * GIB), await startBombServer(4 * GIB, 503));
  harmless = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('{}') });
});
afterAll(async () => {
  for (const server of servers) server.stop();
  await harmless.stop(true);
  folder.remove();
});

describe.each(['of success', 'of failure'] as const)('a packed answer %s', (kind) => {
  const server = (): BombServer => servers[kind === 'of success' ? 0 : 1] as BombServer;

  const commands = [
    'usage',
    `cat ${HASH}`,
    'gc',
    'refs list --all',
    'snapshots',
    'bundle import BUNDLE',
    'app list --operator URL',
    'space list --operator URL',
  ];
  test.each(commands)('fails holdfast %s, with no more memory', async (words) => {
    const ask = (url: string) =>
      run([HOLDFAST, ...words.replace('BUNDLE', bundle).replace('URL', url).split(' ')], url);
    const usual = await ask(harmless.url.origin);
    const packed = await ask(server().url);
    expect(packed.exitCode).toBe(1);
    expect(packed.text).toContain('Content-Encoding');
    expect(packed.peakBytes - usual.peakBytes).toBeLessThan(64 * MIB);
  });

  test('fails calls of the SDK, with no more memory', async () => {
    const program = [process.execPath, '-e', SDK_PROGRAM];
    const usual = await run(program, harmless.url.origin);
    const packed = await run(program, server().url);
    expect(packed.text).toBe('MALFORMED_RESPONSE\n'.repeat(3));
    expect(packed.peakBytes - usual.peakBytes).toBeLessThan(64 * MIB);
  });
});
