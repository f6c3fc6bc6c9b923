/** `serve --trusted-proxy` on a real server: the headers of a proxy are believed, and those of clients are not. */
import { afterAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { readIfThere } from './support/read-if-there.ts';
import { type RunningServer, startFreshServer } from './support/running-server.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const folder = makeTempFolder('trusted-proxy');
const servers: RunningServer[] = [];
afterAll(async () => {
  for (const each of servers) await each.remove();
  folder.remove();
});

const FORWARDED = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '1.1.1.1, 198.51.100.7' };

/** A lease that came with the headers of a proxy: the scheme of its upload URL, and who sent it by the audit log. */
async function leaseThrough(...flags: readonly string[]): Promise<{ scheme: string; peer: unknown }> {
  const log = join(folder.path, `${crypto.randomUUID()}.log`);
  const running = await startFreshServer('trusted-proxy', { arguments: ['--audit-log', log, ...flags] });
  servers.push(running);
  const { spaceUrl } = running.client();
  const answer = await fetch(`${spaceUrl}/cas/nodes/${makeNode('forwarded').hash}/lease`, {
    method: 'POST',
    headers: {
      ...{ authorization: `Bearer ${running.issuer.token('space')}`, 'content-type': 'application/json' },
      ...FORWARDED,
    },
    body: '{"leaseDurationMs":60000}',
  });
  const { upload } = (await answer.json()) as { upload: { url: string } };
  const read = (): string => readIfThere(log) ?? '';
  await until(() => read().includes('\n'));
  return { scheme: new URL(upload.url).protocol, peer: JSON.parse(read().split('\n')[0] as string).peer };
}

describe.concurrent('X-Forwarded-Proto and X-Forwarded-For', () => {
  test('of a trusted proxy are believed', async () => {
    expect(await leaseThrough('--trusted-proxy', '10.0.0.0/8,127.0.0.1')).toEqual({
      ...{ scheme: 'https:', peer: '198.51.100.7' },
    });
  });

  test('of any other peer are not', async () => {
    expect(await leaseThrough('--trusted-proxy', '10.0.0.0/8')).toEqual({
      scheme: 'http:',
      peer: '127.0.0.1',
    });
  });
});
