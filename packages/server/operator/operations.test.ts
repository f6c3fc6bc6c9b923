/** Every operation on a real server: its input, its refusals, and the documented shape of its answers. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import { operatorHeaders } from '../../../test/support/operator-token.ts';
import { readPrinted, type ServerProcess, startServer } from '../../../test/support/server-process.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { until } from '../../../test/support/until.ts';
import { buildOperatorOpenApi } from './openapi.ts';
import type { Operation } from './operation.ts';
import { OPERATION_NAMES, OPERATIONS, type OperationName } from './operations.ts';

const START_MS_MAX = 300_000;
const ADDED = { app: 'added', issuer: 'https://added.example', audience: 'holdfast' };

/** Run in table order on one server. `status`: of an answer that is a refusal by design. */
const SAMPLES: Readonly<
  Record<OperationName, { readonly input: Readonly<Record<string, unknown>>; readonly status?: number }>
> = {
  getStatus: { input: {} },
  getHistory: { input: { resolution: 'hour' } },
  listRotten: { input: {} },
  signIn: { input: { code: 'wrong' }, status: 403 },
  makeConsoleLink: { input: {} },
  listApps: { input: {} },
  addApp: { input: { ...ADDED, jwksUrl: 'https://added.example/jwks.json' } },
  suspendApp: { input: { app: 'added' } },
  resumeApp: { input: { app: 'added' } },
  removeApp: { input: { app: 'added' } },
  setApp: { input: { app: 'demo', space: 'limited', maxBytes: 10, maxNodes: null } },
  revokeApp: { input: { app: 'demo', sub: 'eve' } },
  rotateSecret: { input: {} },
  listSpaces: { input: { limit: 10 } },
  collectSpace: { input: { app: 'demo', space: 'home' } },
  purgeSpace: { input: { app: 'demo', space: 'home', confirm: 'home' }, status: 409 },
  planCollection: { input: { app: 'demo', space: 'home' } },
  explain: { input: { app: 'demo', space: 'home', hash: '0'.repeat(64) }, status: 404 },
  check: { input: { rehash: '10%' } },
  getBackup: { input: {} },
  // Nothing can be created there, even by root.
  backUp: { input: { folder: '/proc/nowhere' }, status: 409 },
  listAudit: { input: { limit: 5 } },
  acceptRestore: { input: {} },
};

const folder = makeTempFolder('operator');
let server: ServerProcess;
let url: string;
let authorized: Record<string, string>;
beforeAll(async () => {
  server = await startServer({
    data: join(folder.path, 'data'),
    arguments: ['--dev', '--operator-listen', '127.0.0.1:0'],
  });
  await until(() => /^operators: .*\n/m.test(server.output()));
  authorized = operatorHeaders(join(folder.path, 'data'));
  url = /^operators: (.*)$/m.exec(server.output())?.[1] as string;
}, START_MS_MAX);
afterAll(async () => {
  await server?.end('SIGTERM');
  folder.remove();
});

const described = (name: OperationName): Operation => OPERATIONS[name] as unknown as Operation;

function send(
  { method, path }: Operation,
  input: Readonly<Record<string, unknown>>,
  headers: Record<string, string> = {},
): Promise<Response> {
  const target = `${url}/operator/v1/${path}`;
  if (method === 'GET') {
    const query = new URLSearchParams(Object.entries(input).map(([name, value]) => [name, String(value)]));
    return fetch(`${target}?${query}`, { headers: { ...authorized, ...headers } });
  }
  const json = { 'content-type': 'application/json' };
  return fetch(target, {
    method,
    headers: { ...authorized, ...json, ...headers },
    body: JSON.stringify(input),
  });
}

const ajv = new Ajv2020({ strict: false, validateFormats: false });
const problem = ajv.compile(
  (buildOperatorOpenApi().components as { schemas: { Problem: object } }).schemas.Problem,
);

async function expectProblem(response: Response, status: number, code: string): Promise<string> {
  const body = await response.json();
  expect({ status: response.status, code: body.code }).toEqual({ status, code });
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  expect({ valid: problem(body), errors: problem.errors }).toEqual({ valid: true, errors: null });
  expect(body.status).toBe(status);
  expect(body.detail).not.toContain('\n');
  return body.detail;
}

test('the committed openapi.json is what the table makes (run `npm run openapi`)', async () => {
  const committed = await readFile(new URL('./openapi.json', import.meta.url), 'utf8');
  expect(committed).toBe(`${JSON.stringify(buildOperatorOpenApi(), null, 2)}\n`);
  const served = await fetch(`${url}/operator/v1/openapi.json`, { headers: authorized });
  expect(await served.json()).toEqual(JSON.parse(committed));
});

test('a place in the list of Spaces that no answer gave is refused', async () => {
  const { next } = await (await send(described('listSpaces'), { limit: 1 })).json();
  const places = [
    'garbage',
    `${next}x`,
    '-1',
    '1e3',
    '0x1',
    '1.5',
    'unwritten-',
    'unwritten--1',
    'unwritten-x',
    '%00',
    // as PostgreSQL gives them
    'f'.repeat(32),
  ];
  for (const after of places) {
    const detail = await expectProblem(await send(described('listSpaces'), { after }), 400, 'INVALID_INPUT');
    expect(detail).toContain('after');
  }
  if (next !== null) expect((await send(described('listSpaces'), { after: next })).status).toBe(200);
});

test('no two operations share a method and a path', () => {
  const routes = OPERATION_NAMES.map((name) => `${described(name).method} ${described(name).path}`);
  expect(new Set(routes).size).toBe(routes.length);
});

for (const name of OPERATION_NAMES) {
  describe(name, () => {
    const operation = described(name);
    const { input, status = 200 } = SAMPLES[name];

    test('answers as documented', async () => {
      const response = await send(operation, input);
      expect(response.status).toBe(status);
      const body = await response.json();
      const validate = status === 200 ? ajv.compile(operation.output) : problem;
      expect({ valid: validate(body), errors: validate.errors }).toEqual({ valid: true, errors: null });
      expect(response.headers.get('cache-control')).toBe('no-store');
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      expect(response.headers.get('access-control-allow-origin')).toBeNull();
    });

    test('refuses a field that it does not have', async () => {
      const detail = await expectProblem(
        await send(operation, { ...input, unknown: 1 }),
        400,
        'INVALID_INPUT',
      );
      expect(detail).toContain('"unknown"');
    });

    for (const [field, { isOptional }] of Object.entries(operation.input)) {
      if (isOptional) continue;
      test(`names the field ${field} if it is missing`, async () => {
        const { [field]: _, ...rest } = input;
        expect(await expectProblem(await send(operation, rest), 400, 'INVALID_INPUT')).toContain(field);
      });
    }

    test('refuses another method', async () => {
      const response = await fetch(`${url}/operator/v1/${operation.path}`, {
        ...{ method: 'DELETE', headers: authorized },
      });
      expect(response.headers.get('allow')).toContain(operation.method);
      await expectProblem(response, 405, 'METHOD_NOT_ALLOWED');
    });

    test('refuses a page of another origin, and a name that leads here', async () => {
      for (const headers of [
        { origin: 'https://evil.example' },
        { origin: 'null' },
        { host: 'evil.example' },
      ]) {
        await expectProblem(
          await send(operation, input, headers as unknown as Record<string, string>),
          403,
          'FORBIDDEN',
        );
      }
    });

    if (operation.method === 'POST') {
      test('takes JSON alone, and no field twice', async () => {
        const target = `${url}/operator/v1/${operation.path}`;
        const form = { 'content-type': 'application/x-www-form-urlencoded' };
        await expectProblem(
          await fetch(target, {
            method: 'POST',
            headers: { ...authorized, ...form },
            body: JSON.stringify(input),
          }),
          415,
          'UNSUPPORTED_MEDIA_TYPE',
        );
        const json = { 'content-type': 'application/json' };
        for (const body of ['', '[]', '{"app":"a","app":"b"}', '{']) {
          await expectProblem(
            await fetch(target, { method: 'POST', headers: { ...authorized, ...json }, body }),
            400,
            'INVALID_INPUT',
          );
        }
      });
    }
  });
}

test('a purge asks for the id of the Space a second time', async () => {
  const input = { app: 'demo', space: 'home', confirm: 'hom' };
  const detail = await expectProblem(await send(described('purgeSpace'), input), 400, 'INVALID_INPUT');
  expect(detail).toContain('nothing was removed');
});

test('a request is answered in lines if it asks for them, and refused before that as ever', async () => {
  const lines = { accept: 'application/jsonl' };
  const response = await send(described('check'), {}, lines);
  expect(response.headers.get('content-type')).toBe('application/jsonl');
  const last = JSON.parse((await response.text()).trimEnd().split('\n').at(-1) as string);
  expect(Object.keys(last)).toEqual(['output']);
  expect(ajv.compile(described('check').output)(last.output)).toBe(true);
  await expectProblem(await send(described('check'), { rehash: '0%' }, lines), 400, 'INVALID_INPUT');
  const refused = await (await send(described('suspendApp'), { app: 'nobody' }, lines)).text();
  expect(problem(JSON.parse(refused).problem)).toBe(true);
  const read = await send(described('listApps'), {}, lines);
  expect(Object.keys(JSON.parse((await read.text()).trim()))).toEqual(['output']);
  const head = await fetch(`${url}/operator/v1/apps`, {
    method: 'HEAD',
    headers: { ...authorized, ...lines },
  });
  expect(head.headers.get('content-type')).toContain('application/json;');
});

test('a path without an operation is a problem too', async () => {
  await expectProblem(await fetch(`${url}/operator/v1/nothing`, { headers: authorized }), 404, 'NOT_FOUND');
});

test('the link of --dev signs in once, and is shown nowhere but on the terminal', async () => {
  const code = await readPrinted(server, /#signin=(\S+)\n/);
  expect(await (await fetch(`${url}/`)).text()).not.toContain(code);
  const first = await send(described('signIn'), { code });
  const access = await first.json();
  expect(Object.keys(access)).toEqual(['url', 'app', 'space', 'token', 'operatorToken']);
  expect(access.url).toBe(server.url);
  const usage = `${access.url}/v1/apps/${access.app}/spaces/${access.space}/cas/usage`;
  const answer = await fetch(usage, { headers: { authorization: `Bearer ${access.token}` } });
  expect(answer.status).toBe(200);
  const asConsole = { authorization: `Bearer ${access.operatorToken}` };
  expect((await send(described('listApps'), {}, asConsole)).status).toBe(200);
  await expectProblem(await send(described('signIn'), { code }), 403, 'FORBIDDEN');
  // As many characters as a code, but more bytes.
  await expectProblem(await send(described('signIn'), { code: 'é'.repeat(code.length) }), 403, 'FORBIDDEN');
  expect(server.log()).not.toContain(code);
});

test('a check names an App whose registration is damaged, and says what to do', async () => {
  const spoil = (sql: string): void => {
    using database = new Database(join(folder.path, 'data', 'registry.db'), {
      create: false,
      readwrite: true,
    });
    database.run(sql);
  };
  const check = async () => (await send(described('check'), {})).json();
  const { ok, findings } = await check();
  expect({ ok, findings }).toEqual({ ok: true, findings: [] });
  spoil("UPDATE apps SET audience = audience || 'x' WHERE app_id = 'demo'");
  expect(await check()).toMatchObject({
    ok: false,
    findings: [
      { kind: 'row', app: 'demo', space: '', message: expect.stringContaining('app add --replace') },
    ],
  });
  spoil("UPDATE apps SET audience = substr(audience, 1, length(audience) - 1) WHERE app_id = 'demo'");
});
