/**
 * Preloaded into a real server process by tests that kill it at an exact instant: before the n-th system call or statement of a kind,
 * the process kills itself with SIGKILL. `HOLDFAST_TEST_KILL_AT` is `what:which:n`: what is `write`, `fsync`, `link`, `unlink` or
 * `rename` of a file whose path has `which` in it, `sql`, a statement that begins so, or `put`, a PUT to a URL with it.
 */
const fs = require('node:fs') as Record<string, (...given: unknown[]) => unknown>;
const promises = require('node:fs/promises') as Record<string, (...given: unknown[]) => unknown>;
const { Database } = require('bun:sqlite') as typeof import('bun:sqlite');

const [kind = '', which = '', nth = ''] = (process.env.HOLDFAST_TEST_KILL_AT ?? '').split(':');
let left = Number(nth);
/** of descriptors that are open */
const paths = new Map<unknown, string>();

function meet(what: string, where: string, isThis: boolean): void {
  if (what !== kind || !isThis || where === '') return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
}

const open = fs.open as (...given: unknown[]) => unknown;
fs.open = (path, ...rest) => {
  const done = rest.pop() as (error: unknown, fd: unknown) => void;
  return open(path, ...rest, (error: unknown, fd: unknown) => {
    paths.set(fd, String(path));
    done(error, fd);
  });
};
for (const name of ['write', 'fsync']) {
  const real = fs[name] as (...given: unknown[]) => unknown;
  fs[name] = (fd, ...rest) => {
    const path = paths.get(fd) ?? '';
    meet(name, path, path.includes(which));
    return real(fd, ...rest);
  };
}
for (const name of ['link', 'unlink', 'rename']) {
  const real = promises[name] as (...given: unknown[]) => unknown;
  promises[name] = (path, ...rest) => {
    meet(name, String(path), String(path).includes(which));
    return real(path, ...rest);
  };
}
for (const name of ['unlink', 'rename']) {
  const real = fs[`${name}Sync`] as (...given: unknown[]) => unknown;
  fs[`${name}Sync`] = (path, ...rest) => {
    meet(name, String(path), String(path).includes(which));
    return real(path, ...rest);
  };
}

const prepare = Database.prototype.prepare;
Database.prototype.prepare = function (this: unknown, sql: string, ...rest: never[]) {
  const statement = prepare.call(this as never, sql, ...rest);
  for (const name of ['run', 'get', 'all'] as const) {
    const real = statement[name] as (...given: unknown[]) => unknown;
    statement[name] = ((...given: unknown[]) => {
      meet('sql', sql, sql.startsWith(which));
      return real.apply(statement, given);
    }) as never;
  }
  return statement;
} as never;

const send = globalThis.fetch;
globalThis.fetch = ((input: unknown, init?: { readonly method?: string }) => {
  meet('put', String(input), init?.method === 'PUT' && String(input).includes(which));
  return send(input as string, init);
}) as typeof fetch;

/** The writer is a thread of its own. */
globalThis.Worker = class extends Worker {
  constructor(url: string | URL, options: WorkerOptions = {}) {
    const preload = [
      ...[(options as { preload?: string | string[] }).preload ?? []].flat(),
      import.meta.path,
    ];
    super(url, { ...options, preload } as WorkerOptions);
  }
};
