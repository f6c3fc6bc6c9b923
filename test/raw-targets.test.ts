/** Request targets that a proxy might normalize: the server judges each exactly as it was sent. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { exchange, statusesOf } from './support/raw-connection.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';

let running: RunningServer;

beforeAll(async () => {
  running = await startFreshServer('targets');
}, 300_000);

afterAll(async () => {
  await running.remove();
});

const usagePath = `/v1/apps/${APP}/spaces/${SPACE}/cas/usage`;

describe('targets', () => {
  const ask = async (target: string): Promise<number | undefined> => {
    const authorization = `Bearer ${running.issuer.token(SPACE)}`;
    const request = `GET ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nConnection: close\r\n\r\n`;
    return statusesOf(await exchange(running.server.port, request, 0, 1))[0];
  };

  test('the plain target is found', async () => {
    expect(await ask(usagePath)).toBe(200);
  });

  /** Each would lead to the same Space if something normalized paths; a refusal without an answer is as good. */
  const tricks: readonly string[] = [
    `/v1/apps/${APP}/spaces/other/../${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/./${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/other/%2e%2e/${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/other/%2E%2e/${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/other/.%2e/${SPACE}/cas/usage`,
    `/x/../v1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/../v1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas/./usage`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas/x/../usage`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas/%2e/usage`,
    `//v1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/v1//apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}//cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas/usage/`,
    `/v1\\apps\\${APP}\\spaces\\${SPACE}\\cas\\usage`,
    `/v1/apps/${APP}/spaces/other/..\\${SPACE}/cas/usage`,
    `/v1/apps/other\\..\\${APP}/spaces/${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/other\\..\\${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/%2e\\${SPACE}/cas/usage`,
    `/uploads/../v1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/uploads/x/%2e%2e/%2e%2e/v1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/uploads\\..\\v1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}%00/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}%/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}%ff/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas%2fusage`,
    `/V1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE.toUpperCase()}/cas/usage`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas/usage;x=1`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas/usage#fragment`,
    `/v1/apps/${APP}/spaces/${SPACE}/cas/usage?x=1`,
    `v1/apps/${APP}/spaces/${SPACE}/cas/usage`,
    'file:///etc/passwd',
    '/uploads/../../../../etc/passwd',
    '/uploads/%2e%2e%2f%2e%2e%2fetc%2fpasswd',
    '/uploads/',
  ];
  for (const target of tricks) {
    test(`${target} is not found`, async () => {
      const status = await ask(target);
      if (status !== undefined) expect([400, 403, 404]).toContain(status);
    });
  }

  test('an absolute target is judged by its path', async () => {
    const status = await ask(`http://elsewhere.example${usagePath}`);
    if (status !== undefined) expect([200, 400, 404]).toContain(status);
    expect([undefined, 400, 404]).toContain(await ask(`http://elsewhere.example/v1/../v1/none`));
  });
});
