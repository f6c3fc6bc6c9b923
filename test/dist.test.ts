/** The output of `npm run dist`: the files themselves, and the command installed by npm or as one executable. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type CommandResult, resultOf } from './support/command-result.ts';
import { startRuntimeRegistry } from './support/runtime-registry.ts';
import { findDescendants, ROOT, type ServerProcess, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const BUILD_MS_MAX = 300_000;
const EXECUTABLE = 'holdfast-linux-x64';
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const PACKAGES = ['holdfast-protocol', 'holdfast-client', 'holdfast'].map((name) => `${name}-${version}.tgz`);

const folder = makeTempFolder('dist');
const dist = join(folder.path, 'dist');
/** A working directory full of files that would steer a runtime. */
const hostile = join(folder.path, 'hostile');
/** Where `npm install --global` puts things. */
const prefix = join(folder.path, 'prefix');
const servers: ServerProcess[] = [];
const programs = {
  executable: join(folder.path, 'alone', EXECUTABLE),
  package: join(prefix, 'bin', 'holdfast'),
};

beforeAll(async () => {
  await runWell(['npm', 'run', 'dist', '--', dist], { cwd: ROOT });
  mkdirSync(dirname(programs.executable));
  copyFileSync(join(dist, EXECUTABLE), programs.executable);
  writeHostileFolder();
  await installGlobally();
}, BUILD_MS_MAX);
afterAll(async () => {
  // Those that a failed test has left.
  await Promise.all(servers.map((server) => server.isRunning() && server.end('SIGKILL')));
  folder.remove();
});

async function installGlobally(): Promise<void> {
  const registry = startRuntimeRegistry(join(folder.path, 'registry'));
  const flags = ['--global', '--prefix', prefix, '--registry', registry.url, '--no-audit', '--no-fund'];
  try {
    await runWell(['npm', 'install', ...flags, join(dist, `holdfast-${version}.tgz`)], { cwd: folder.path });
  } finally {
    await registry.stop();
  }
}

function writeHostileFolder(): void {
  mkdirSync(hostile);
  for (const name of ['.env', '.env.local', '.env.production', '.env.development']) {
    // A server that reads it ends with 2.
    writeFileSync(join(hostile, name), 'HOLDFAST_LOG_LEVEL=read-from-dotenv\n');
  }
  writeFileSync(join(hostile, 'preloaded.ts'), `console.log('preloaded'); process.exit(9);\n`);
  writeFileSync(join(hostile, 'bunfig.toml'), 'preload = ["./preloaded.ts"]\n');
  writeFileSync(join(hostile, 'package.json'), '{ "type": "commonjs", "imports": {} }\n');
  writeFileSync(
    join(hostile, 'tsconfig.json'),
    '{ "compilerOptions": { "paths": { "*": ["./preloaded.ts"] } } }\n',
  );
}

/** With no variables but those given; HOME is there for npm alone. */
async function run(
  command: readonly string[],
  options: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): Promise<CommandResult> {
  const child = Bun.spawn([...command], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: {},
    ...options,
  });
  return resultOf(child);
}

async function runWell(command: readonly string[], { cwd }: { readonly cwd: string }): Promise<void> {
  const env = { PATH: process.env.PATH ?? '', HOME: folder.path };
  const { exitCode, stdout, stderr } = await run(command, { cwd, env });
  if (exitCode !== 0) throw new Error(`${command.join(' ')} failed with ${exitCode}:\n${stdout}${stderr}`);
}

describe('npm run dist', () => {
  test('writes the packages, the executable, and their descriptions', () => {
    expect(readdirSync(dist).sort()).toEqual(
      [...PACKAGES, EXECUTABLE, 'SHA256SUMS', 'openapi.json', 'sbom.json'].sort(),
    );
    expect(statSync(join(dist, EXECUTABLE)).mode & 0o111).toBe(0o111);
  });

  test('writes checksums of all files, which show damage', async () => {
    const sums = readFileSync(join(dist, 'SHA256SUMS'), 'utf8');
    const named = sums
      .trimEnd()
      .split('\n')
      .map((line) => line.slice(66));
    expect(named.sort()).toEqual([...PACKAGES, EXECUTABLE, 'openapi.json', 'sbom.json'].sort());
    const check = () => run(['/usr/bin/sha256sum', '--check', '--quiet', 'SHA256SUMS'], { cwd: dist });
    expect(await check()).toEqual({ exitCode: 0, stdout: '', stderr: '' });
  });

  test(
    'makes the same bytes again in another folder',
    async () => {
      const again = join(folder.path, 'again', 'dist');
      await runWell(['npm', 'run', 'dist', '--', again], { cwd: ROOT });
      expect(readFileSync(join(again, 'SHA256SUMS'), 'utf8')).toBe(
        readFileSync(join(dist, 'SHA256SUMS'), 'utf8'),
      );
    },
    BUILD_MS_MAX,
  );

  test('says nothing of the folder it was made in', () => {
    const installed = join(prefix, 'lib', 'node_modules', 'holdfast', 'lib');
    const files = [programs.executable, ...readdirSync(installed).map((name) => join(installed, name))];
    expect(files.filter((path) => readFileSync(path).includes(`${ROOT}/`))).toEqual([]);
  });

  test('lists what is in it, with versions and licences', () => {
    const { bomFormat, specVersion, metadata, components } = JSON.parse(
      readFileSync(join(dist, 'sbom.json'), 'utf8'),
    );
    expect([bomFormat, specVersion, metadata.component.version]).toEqual(['CycloneDX', '1.6', version]);
    const byName = new Map<string, Record<string, never>>(
      components.map((one: { name: string }) => [one.name, one]),
    );
    for (const [name, wanted] of Object.entries(readRuntimeDependencies())) {
      expect([name, byName.get(name)?.version]).toEqual([name, wanted as never]);
    }
    for (const { type, name, version: of, licenses, purl, hashes } of components) {
      if (type === 'file') expect(hashes).toEqual([{ alg: 'SHA-256', content: readSum(name) }]);
      else {
        expect(licenses[0].license?.id ?? licenses[0].expression).toMatch(/^[A-Z]/);
        expect(purl).toBe(`pkg:npm/${name.replace('@', '%40')}@${of}`);
      }
    }
  });

  test('carries one version everywhere', () => {
    const manifests = ['', 'packages/', 'bench/'].flatMap((parent) =>
      parent === 'packages/' ? readdirSync(join(ROOT, parent)).map((name) => `${parent}${name}/`) : [parent],
    );
    for (const path of manifests) {
      const manifest = JSON.parse(readFileSync(join(ROOT, path, 'package.json'), 'utf8'));
      const own = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(([name]) =>
        name.startsWith('@holdfast/'),
      );
      const versions = [manifest.version ?? version, ...own.map(([, of]) => of)];
      expect([path, ...new Set(versions)]).toEqual([path, version]);
    }
  });
});

/** The names of all packages in the command, from their manifests. */
function readRuntimeDependencies(): Record<string, string> {
  const paths = ['.', ...['cli', 'client', 'files', 'protocol', 'server'].map((name) => `packages/${name}`)];
  const all = paths.map(
    (path) => JSON.parse(readFileSync(join(ROOT, path, 'package.json'), 'utf8')).dependencies,
  );
  const entries = all.flatMap((dependencies) => Object.entries<string>(dependencies ?? {}));
  return Object.fromEntries(entries.filter(([name]) => !name.startsWith('@holdfast/')));
}

function readSum(name: string): string | undefined {
  const lines = readFileSync(join(dist, 'SHA256SUMS'), 'utf8').split('\n');
  return lines.find((line) => line.slice(66) === name)?.slice(0, 64);
}

/** Complete connection settings for an address where nobody listens. */
const NOWHERE = {
  HOLDFAST_URL: 'http://127.0.0.1:1',
  HOLDFAST_APP: 'app',
  HOLDFAST_SPACE: 'space',
  HOLDFAST_TOKEN: 'token',
};

/** A server whose variables are none but those given, in the hostile folder; what its --dev line exports comes with it. */
async function serveThere(program: string, data: string, given: readonly string[] = []) {
  const server = await startServer({
    data,
    program,
    cwd: hostile,
    wrapper: ['/usr/bin/env', '-i', ...given],
    arguments: ['--dev', '--workers', '2'],
  });
  servers.push(server);
  // Lines after the first may come later.
  await until(() => /^# .* usage$/m.test(server.output()));
  const env = Object.fromEntries(
    [...server.output().matchAll(/^export (\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [name, value]),
  );
  return { server, env };
}

describe.each(Object.entries(programs))('holdfast as %s', (kind, program) => {
  test('prints its version alone, whatever the folder and the variables of runtimes say', async () => {
    const expected = { exitCode: 0, stdout: `${version}\n`, stderr: '' };
    expect(await run([program, '--version'], { cwd: hostile })).toEqual(expected);
    const env = { BUN_OPTIONS: '--smol', NODE_OPTIONS: '--require ./preloaded.ts', NODE_ENV: 'production' };
    expect(await run([program, '--version'], { cwd: hostile, env })).toEqual(expected);
  });

  test('serves with workers, takes a real tree in and gives it back', async () => {
    const data = join(folder.path, `data-${kind}`);
    const before = listInstalled();
    const { server, env } = await serveThere(program, data, ['MIMALLOC_PURGE_DELAY=7']);
    expect(server.output()).toContain(
      `# ${' '.repeat(2)}${kind === 'package' ? 'holdfast' : program} usage\n`,
    );
    const workers = findDescendants(server.pid);
    expect(workers).toHaveLength(2);
    for (const pid of [server.pid, ...workers]) {
      const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      expect(variables).toContain('UV_THREADPOOL_SIZE=8');
      expect(variables).toContain('MIMALLOC_PURGE_DELAY=7');
      expect(variables).toContain('MIMALLOC_PURGE_HOLES_MIN_INTERVAL=1000');
      expect(variables).toContain('BUN_JSC_thresholdForFTLOptimizeAfterWarmUp=1000000');
    }

    // More files than a pull makes without its thread.
    const source = join(ROOT, 'node_modules', 'typescript');
    const copy = join(folder.path, `copy-${kind}`);
    const pushed = await run([program, 'push', source, '--quiet'], { cwd: hostile, env });
    expect([pushed.exitCode, pushed.stderr]).toEqual([0, '']);
    const root = pushed.stdout.trim();
    for (const args of [
      ['verify', root],
      ['pull', root, copy],
    ]) {
      // Among others no warning that a thread is missing in what was built.
      const { exitCode, stderr } = await run([program, ...args, '--quiet'], { cwd: hostile, env });
      expect([exitCode, stderr]).toEqual([0, '']);
    }
    const compared = await run(['/usr/bin/diff', '-r', '--no-dereference', source, copy], { cwd: hostile });
    expect(compared).toEqual({ exitCode: 0, stdout: '', stderr: '' });

    process.kill(workers[0] as number, 'SIGKILL');
    await until(() => {
      const now = findDescendants(server.pid);
      return now.length === 2 && !now.includes(workers[0] as number);
    });
    expect(await server.end('SIGTERM')).toBe(0);
    // The process that was started is the one that served.
    await until(() => server.log().includes(`"pid":${server.pid},"msg":"ended"`));

    const restarted = await serveThere(program, data);
    const usage = await run([program, 'usage', '--json'], { cwd: hostile, env: restarted.env });
    expect(JSON.parse(usage.stdout).nodeCount).toBeGreaterThan(10);
    expect(await restarted.server.end('SIGKILL')).toBe('SIGKILL');
    // Nothing of the installation was written, so nobody who runs it needs a right to.
    expect(listInstalled()).toEqual(before);
  });

  test('has the exit codes and the one line of the command line', async () => {
    const nowhere = await run([program, 'usage'], {
      cwd: hostile,
      env: NOWHERE,
    });
    expect([nowhere.exitCode, nowhere.stdout, nowhere.stderr.split('\n').length]).toEqual([1, '', 2]);
    const wrong = await run([program, 'no-such-command'], { cwd: hostile });
    expect([wrong.exitCode, wrong.stdout]).toEqual([2, '']);
    // No command makes a process a worker.
    const worker = await run([program, 'serve-worker'], { cwd: hostile });
    expect([worker.exitCode, worker.stdout]).toEqual([2, '']);
  });
});

/** All installed files with their sizes and times, so that a write to any of them shows. */
function listInstalled(): string[] {
  const root = realpathSync(join(prefix, 'lib', 'node_modules', 'holdfast'));
  return readdirSync(root, { recursive: true })
    .map((name) => {
      const { size, mtimeMs, ctimeMs } = statSync(join(root, String(name)));
      return `${name} ${size} ${mtimeMs} ${ctimeMs}`;
    })
    .sort();
}

test('the executable needs the C library and /proc, and nothing else on the machine', async () => {
  const root = join(folder.path, 'root');
  const env = { PATH: process.env.PATH ?? '' };
  const { stdout: libraries } = await run(['/usr/bin/ldd', programs.executable], { cwd: '/', env });
  for (const [path] of libraries.matchAll(/\/\S+/g)) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    copyFileSync(path, join(root, path));
  }
  for (const name of ['proc', 'keys']) mkdirSync(join(root, name));
  copyFileSync(programs.executable, join(root, 'holdfast'));
  const script = `mount --rbind /proc '${root}/proc' && exec env -i "$(command -v chroot)" '${root}' /holdfast "$@"`;
  const inside = (...args: string[]) =>
    run(['/usr/bin/unshare', '--map-root-user', '--mount', 'sh', '-c', script, 'sh', ...args], {
      cwd: '/',
      env: { PATH: `${env.PATH}:/usr/sbin:/sbin` },
    });
  expect(await inside('--version')).toEqual({ exitCode: 0, stdout: `${version}\n`, stderr: '' });
  const made = await inside('key', 'new', '--out', '/keys/key.jwk', '--jwks', '/keys/keys.json');
  expect([made.exitCode, made.stderr]).toEqual([0, '']);
  const registered = await inside(
    ...['token', '--key', '/keys/key.jwk', '--issuer', 'https://issuer.example', '--audience', 'a'],
    ...['--space', 's', '--permission', 'cas:nodes:read'],
  );
  expect(registered.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
});
