// Finds what a test file imports, itself and through others: which tests a change concerns, and which open nothing.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const STATEMENT = /^[ \t]*(?:import|export)\b([^'"`;]*?\bfrom\s*|\s*)['"]([^'"]+)['"]/gm;
const CALL = /\bimport\(\s*['"]([^'"]+)['"]/g;
const PACKAGE = /^@holdfast\/([a-z-]+)(?:\/([a-z-]+))?$/;
/** `import type` and lists of types alone: gone when the code runs. */
const TYPES_ALONE = /^\s*type\b|^\s*\{(?:\s*type\s+\w+(?:\s+as\s+\w+)?\s*,?)+\}\s*from/;
const OPENING_MODULE =
  /^(?:bun:sqlite|node:(?:child_process|cluster|dgram|http|http2|https|net|sqlite|tls|worker_threads))$/;
/** The names of `node:net` that only look at text. */
const ADDRESS_NAMES = /^\s*\{(?:\s*(?:isIP|isIPv4|isIPv6|BlockList)\s*,?)+\}\s*from/;
const OPENING_CALL =
  /\bBun\.(?:serve|spawn|spawnSync|listen|connect|udpSocket|SQL|RedisClient|\$)|\bnew Worker\(/;

const known = new Map();

/** @returns {{imports: {path: string, isType: boolean}[], opens: boolean}} paths from `root` */
function readSource(root, path) {
  const full = join(root, path);
  if (known.has(full)) return known.get(full);
  const text = existsSync(full) ? readFileSync(full, 'utf8') : '';
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
  const statements = [...code.matchAll(STATEMENT)].map(([, names, name]) => ({ names, name }));
  const calls = [...code.matchAll(CALL)].map(([, name]) => ({ names: '', name }));
  const found = [...statements, ...calls].map((one) => ({ ...one, isType: TYPES_ALONE.test(one.names) }));
  const opens =
    OPENING_CALL.test(code) ||
    found.some(
      ({ names, name, isType }) =>
        !isType && OPENING_MODULE.test(name) && !(name === 'node:net' && ADDRESS_NAMES.test(names)),
    );
  const imports = found.flatMap(({ name, isType }) => {
    const target = resolveImport(root, full, name);
    return target === undefined ? [] : [{ path: target, isType }];
  });
  const source = { imports, opens };
  known.set(full, source);
  return source;
}

function resolveImport(root, from, name) {
  if (name.startsWith('.')) return relative(root, join(dirname(from), name));
  const [, folder, door = 'index'] = PACKAGE.exec(name) ?? [];
  return folder === undefined ? undefined : join('packages', folder, `${door}.ts`);
}

/** The file and all that it imports, types included or not, no further than at `ends`; paths from `root`. */
export function reach(root, file, { withTypes, ends = new Map() }) {
  const seen = new Set();
  const open = [file];
  while (open.length > 0) {
    const path = open.pop();
    if (seen.has(path)) continue;
    seen.add(path);
    if (ends.has(path)) continue;
    const { imports } = readSource(root, path);
    open.push(...imports.filter(({ isType }) => withTypes || !isType).map((one) => one.path));
  }
  return [...seen];
}

/** @returns {boolean} whether `file` is one of `paths` or imports one */
export function importsAny(root, file, paths) {
  return reach(root, file, { withTypes: true }).some((path) => paths.has(path));
}

/** @returns {boolean} whether nothing that runs with `file` can open a store, a socket, a process or a thread */
export function opensNothing(root, file) {
  return !reach(root, file, { withTypes: false }).some((path) => readSource(root, path).opens);
}
