/** A package registry on loopback that has nothing but the runtime, as it is installed here: `npm install` needs no network. */
import { execFileSync } from 'node:child_process';
import { cpSync, linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './server-process.ts';

export interface RuntimeRegistry {
  readonly url: string;
  stop(): Promise<void>;
}

const INSTALLED = join(ROOT, 'node_modules');

interface Manifest {
  readonly name: string;
  readonly version: string;
}

/** Keeps the tarballs it serves in `folder`, which is made. */
export function startRuntimeRegistry(folder: string): RuntimeRegistry {
  const tarballs = new Map<string, string>();
  const manifests = new Map<string, Manifest>();
  const [platform] = readdirSync(join(INSTALLED, '@oven'));
  if (platform === undefined) throw new Error('bun is not installed for this platform: run npm ci');
  const add = (source: string, change: (manifest: Manifest) => Manifest, fill: (folder: string) => void) => {
    const installed = JSON.parse(readFileSync(join(INSTALLED, source, 'package.json'), 'utf8'));
    const manifest = change(installed);
    const name = source.replaceAll('/', '-');
    const stage = join(folder, name);
    mkdirSync(join(stage, 'package', 'bin'), { recursive: true });
    writeFileSync(join(stage, 'package', 'package.json'), JSON.stringify(manifest));
    fill(join(stage, 'package'));
    const tarball = join(folder, `${name}.tgz`);
    execFileSync('tar', ['-cf', tarball, '-C', stage, 'package']);
    tarballs.set(`/${name}.tgz`, tarball);
    manifests.set(source, manifest);
  };
  // The installation has moved the binary from the platform's package into bun's own, over a placeholder.
  add(
    'bun',
    (manifest) => ({ ...manifest, optionalDependencies: { [`@oven/${platform}`]: manifest.version } }),
    (to) => {
      cpSync(join(INSTALLED, 'bun', 'install.js'), join(to, 'install.js'));
      for (const name of ['bun.exe', 'bunx.exe'])
        writeFileSync(join(to, 'bin', name), 'exit 1\n', { mode: 0o755 });
    },
  );
  add(
    `@oven/${platform}`,
    (manifest) => manifest,
    (to) => {
      const binary = join(to, 'bin', 'bun');
      try {
        linkSync(join(INSTALLED, 'bun', 'bin', 'bun.exe'), binary);
      } catch {
        // Another file system.
        cpSync(join(INSTALLED, 'bun', 'bin', 'bun.exe'), binary);
      }
    },
  );
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request) => {
      const { pathname, origin } = new URL(request.url);
      const tarball = tarballs.get(pathname);
      if (tarball !== undefined) return new Response(Bun.file(tarball));
      const manifest = manifests.get(decodeURIComponent(pathname.slice(1)));
      if (manifest === undefined) return new Response('{}', { status: 404 });
      const dist = { tarball: `${origin}/${manifest.name.replaceAll('/', '-')}.tgz` };
      const { name, version } = manifest;
      return Response.json({
        name,
        'dist-tags': { latest: version },
        versions: { [version]: { ...manifest, dist } },
      });
    },
  });
  return { url: server.url.origin, stop: () => server.stop(true) };
}
