/** `holdfast config check --online` on a real PostgreSQL and a real S3: nothing is made in either. */
import { afterAll, afterEach, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { formatContentUrl, makeS3Environment, openEngines } from './support/cluster.ts';
import { openPostgres } from './support/postgres-server.ts';
import { runHoldfast, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const TEST_MS_MAX = 300_000;

const engines = await openEngines();
const databases = await openPostgres();
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});
afterAll(async () => {
  await databases.close();
  await engines.close();
});

interface Report {
  readonly exitCode: number;
  readonly problems: readonly { readonly message: string }[];
  readonly found: readonly string[];
}

async function check(metadata: string, content: string, listen = '127.0.0.1:0'): Promise<Report> {
  const environment = {
    ...makeS3Environment(engines.bucket),
    HOLDFAST_METADATA: metadata,
    HOLDFAST_CONTENT: content,
    HOLDFAST_LISTEN: listen,
  };
  const { exitCode, stdout, stderr } = await runHoldfast(['config', 'check', '--online', '--json'], {
    environment,
  });
  const secrets = [new URL(engines.metadataUrl).password, engines.bucket.secretAccessKey];
  for (const secret of secrets) expect(stdout + stderr).not.toContain(secret);
  return { exitCode, ...JSON.parse(stdout) };
}

test(
  'the check says that a start would make tables and a marker, and later whose they are',
  async () => {
    const content = formatContentUrl(engines.bucket);
    const fresh = await check(engines.metadataUrl, content);
    expect(fresh).toMatchObject({ exitCode: 0, problems: [] });
    expect(fresh.found.join('\n')).toMatch(
      /empty, a start makes the tables\n.*data_checksums is o.*\n.*has no marker yet/,
    );
    const sql = new SQL(engines.metadataUrl, { max: 1 });
    cleanups.push(() => sql.close());
    expect([...(await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)]).toEqual([]);

    const folder = makeTempFolder('config-check');
    cleanups.push(() => folder.remove());
    const server = await startServer({
      data: `${folder.path}/data`,
      environment: {
        ...makeS3Environment(engines.bucket),
        HOLDFAST_METADATA: engines.metadataUrl,
        HOLDFAST_CONTENT: content,
      },
    });
    cleanups.push(() => server.isRunning() && server.end('SIGKILL'));
    const served = await check(engines.metadataUrl, content);
    expect(served).toMatchObject({ exitCode: 0, problems: [] });
    expect(served.found.join('\n')).toMatch(
      /schema version \d+, a server works on it.*its marker is that of these rows/s,
    );

    const busy = await check(engines.metadataUrl, content, `127.0.0.1:${server.port}`);
    expect([busy.exitCode, busy.found.join('\n')]).toEqual([
      0,
      expect.stringContaining('by a Holdfast server'),
    ]);
    const stranger = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('hello') });
    cleanups.push(() => stranger.stop(true));
    const taken = await check(engines.metadataUrl, content, `127.0.0.1:${stranger.port}`);
    expect([taken.exitCode, taken.problems.map(({ message }) => message)]).toEqual([
      1,
      [expect.stringContaining('the port is taken')],
    ]);

    const other = await databases.createDatabase();
    const foreign = await check(other, content);
    expect([foreign.exitCode, foreign.problems.map(({ message }) => message)]).toEqual([
      1,
      [expect.stringMatching(/^--content, bucket .*belongs to other rows/)],
    ]);
    const elsewhere = formatContentUrl(engines.bucket).replace('?', '/other?');
    const lost = await check(engines.metadataUrl, elsewhere);
    expect([lost.exitCode, lost.problems[0]?.message]).toEqual([
      1,
      expect.stringContaining('lost its marker'),
    ]);
  },
  TEST_MS_MAX,
);

test(
  'the check refuses a schema that this build cannot use, and names a wrong password',
  async () => {
    const url = await databases.createDatabase();
    const sql = new SQL(url, { max: 1 });
    cleanups.push(() => sql.close());
    await sql`CREATE TABLE holdfast_schema (id smallint PRIMARY KEY, version integer, min_compatible_version integer)`;
    await sql`INSERT INTO holdfast_schema VALUES (1, 1000, 1000)`;
    const content = formatContentUrl(engines.bucket);
    const newer = await check(url, content);
    expect([newer.exitCode, newer.problems[0]?.message]).toEqual([
      1,
      expect.stringMatching(/schema version 1000/),
    ]);
    const wrong = new URL(url);
    wrong.username = 'nobody_here';
    const refused = await check(wrong.href, content);
    expect([refused.exitCode, refused.problems[0]?.message]).toEqual([
      1,
      expect.stringMatching(/^--metadata, database/),
    ]);
  },
  TEST_MS_MAX,
);
