/** The suite must fail when the answers are wrong, by the clause that was broken, and pass when they are right. */
import { afterAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { renderReport, runConformance, selectChecks } from './index.ts';
import { bulkMutations } from './test/bulk-mutations-fixture.ts';
import { type Mutation, mutations } from './test/mutations-fixture.ts';
import { openTestServer } from './test/test-server-fixture.ts';

const server = await openTestServer();
afterAll(() => server.close());

function falsified({ makeFalsifier }: Mutation): (url: string, init: RequestInit) => Promise<Response> {
  const falsify = makeFalsifier();
  return async (url, init) => {
    const response = await server.answer(url, init);
    const { status } = response;
    const headers = new Headers(response.headers);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const { pathname: path } = new URL(url);
    const untouched = new Response(bytes.length === 0 ? null : bytes.slice(), {
      status,
      headers: response.headers,
    });
    return falsify({ method: init.method ?? 'GET', path, status, headers, bytes }) ?? untouched;
  };
}

describe('a server that', () => {
  for (const mutation of [...mutations, ...bulkMutations]) {
    test(`${mutation.name} breaks "${mutation.clause}"`, async () => {
      const report = await runConformance({
        ...server.inProcess,
        fetch: falsified(mutation),
        only: mutation.only,
      });
      const clauses = report.results
        .filter((result) => result.outcome === 'failed')
        .map((result) => result.clause);
      expect(clauses.join('\n')).toContain(mutation.clause);
    }, 300_000);
  }

  test('keeps every rule fails none of the same checks', async () => {
    const only = [...new Set([...mutations, ...bulkMutations].flatMap((mutation) => mutation.only))];
    const report = await runConformance({ ...server.inProcess, only });
    expect(renderReport(report)).not.toContain('✗');
    expect(report.failed).toBe(0);
    expect(report.passed).toBeGreaterThan(50);
  }, 300_000);
});

describe('a target that cannot be checked', () => {
  test('is refused with the reason', async () => {
    const nobody = { ...server.inProcess.identity, issuer: 'https://nobody.example' };
    const refused = runConformance({ ...server.inProcess, identity: nobody });
    await expect(refused).rejects.toThrow(/answered 401 .*unknown_issuer.*check --app, --issuer/);
    const elsewhere = async () => new Response('no', { status: 502 });
    const absent = runConformance({ ...server.inProcess, fetch: elsewhere });
    await expect(absent).rejects.toThrow(/answered 502/);
  });
});

describe('the report', () => {
  test('names check, clause, expectation and answer, and no secrets', async () => {
    const [dropped] = mutations.filter(({ name }) => name === 'drops www-authenticate') as [Mutation];
    const text = renderReport(
      await runConformance({
        ...server.inProcess,
        fetch: falsified(dropped),
        only: ['auth.missing', 'auth.times'],
      }),
    );
    expect(text).toContain('✗ auth.missing');
    expect(text).toContain('breaks    Capabilities, row 1');
    expect(text).toContain('WWW-Authenticate: Bearer');
    expect(text).toMatch(/→ 401/);
    expect(text).not.toMatch(/eyJ[\w-]{10,}/);
    expect(text.trimEnd().split('\n').at(-1)).toMatch(/^\d+ passed, \d+ failed, \d+ not applicable/);
  });

  test('gives every check an id of its own, and a clause under a heading of docs/api.md or docs/bulk.md', async () => {
    const checks = selectChecks();
    expect(new Set(checks.map((check) => check.id)).size).toBe(checks.length);
    const pages = ['api.md', 'bulk.md'].map((name) =>
      Bun.file(join(import.meta.dir, '../../docs', name)).text(),
    );
    const headings = [...(await Promise.all(pages)).join('\n').matchAll(/^#+ (.*)$/gm)].map(
      ([, heading]) => heading as string,
    );
    const lost = checks.filter(({ clause }) => {
      return !headings.some(
        (heading) =>
          clause === heading || (/^[:,] ./.test(clause.slice(heading.length)) && clause.startsWith(heading)),
      );
    });
    expect(lost.map(({ id, clause }) => `${id}: ${clause}`)).toEqual([]);
  });
});
