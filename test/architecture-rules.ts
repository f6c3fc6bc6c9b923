/**
 * The house rules as one pure function over source texts, so that the test can plant violations and see them found.
 * Reading is line-based and cheap: the formatter guarantees the layout it leans on.
 */

import {
  COMPOSITION_ROOT,
  CONCRETE_ENGINE,
  FILES_STATE,
  FLOORS,
  NARROW_DOORS,
  ROOMS,
  type Room,
} from './architecture-rooms.ts';

/** A file of the repository: `path` is relative to its root with forward slashes. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

export const FILE_LINES_MAX = 400;
export const FUNCTION_LINES_MAX = 70;

/** Names that would bind a portable package to one runtime. */
const RUNTIME_GLOBALS = /(?<![\w.'"])(?:Bun|process|Buffer|Deno|__dirname|require)(?=[.([])/;
/** Names that only one runtime has. */
const BUN_GLOBAL = /(?<![\w.'"])Bun(?=[.([])/;
/** Names by which rules would reach clock, randomness or network without a port. */
const WORLD_GLOBALS =
  /(?<![\w.'"])(?:Date\.now|new Date|Math\.random|setTimeout|setInterval|fetch|console|Bun\.(?:file|write|serve)|process)\b/;

/** The parts that the head of a workaround of the runtime must have. */
const WORKAROUND_HEAD = ['Why: ', 'Since: ', 'Without it: ', 'Goes when: '];

/** An HMAC of the runtime is made here alone. */
const KEYED_HASHER = 'packages/server/runtime/hmac.ts';

const KEBAB_CASE = /^(?:[a-z0-9]+(?:-[a-z0-9]+)*)(?:\.(?:test|bench|d))?\.(?:ts|tsx|mjs|sql)$/;

/** Every broken rule as one line `path: what is wrong and why`; empty when the house is in order. */
export function findViolations(files: readonly SourceFile[]): string[] {
  const found = files.flatMap((file) => [
    ...findNameViolations(file),
    ...findSizeViolations(file),
    ...findImportViolations(file),
    ...findTextViolations(file),
  ]);
  return [...found, ...findCircles(files)];
}

/** Files that import each other in a loop, types included: none of them can be read, or moved, without the others. */
function findCircles(files: readonly SourceFile[]): string[] {
  const imports = new Map(
    files.map(({ path, text }) => [path, findRelativeImports(text).map((name) => resolvePath(path, name))]),
  );
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start !== -1) found.push(`${path}: imports itself: ${[...trail.slice(start), path].join(' → ')}`);
    if (start !== -1 || done.has(path)) return;
    for (const target of imports.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const { path } of files) visit(path, []);
  return found;
}

const findRelativeImports = (text: string): string[] =>
  findImports(text).filter((name) => name.startsWith('.'));

function findNameViolations({ path }: SourceFile): string[] {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const found: string[] = [];
  if (!KEBAB_CASE.test(name)) found.push(`${path}: file names are kebab-case`);
  if (/(?:^|-)(?:manager|helper|helpers|util|utils)(?:-|\.)/.test(name)) {
    found.push(`${path}: no Manager, Helper or Util; name what it does`);
  }
  return found;
}

function findSizeViolations({ path, text }: SourceFile): string[] {
  const found: string[] = [];
  const lines = text.trimEnd().split('\n');
  if (lines.length > FILE_LINES_MAX) found.push(`${path}: ${lines.length} lines, at most ${FILE_LINES_MAX}`);
  if (isTest(path)) return found;
  for (const { line, length } of measureFunctions(lines)) {
    if (length > FUNCTION_LINES_MAX) {
      found.push(`${path}:${line}: a function of ${length} lines, at most ${FUNCTION_LINES_MAX}`);
    }
  }
  return found;
}

/**
 * A function opens on a line that ends in `) {`, `): T {` or `=> {` and closes at the same indentation. Its length is its
 * own: lines of functions inside it count for those. Blank lines do not count.
 */
function measureFunctions(lines: readonly string[]): { line: number; length: number }[] {
  const spans = lines.flatMap((line, start) => {
    if (!/(?:=>|\)|\): [^;]+) \{$/.test(line)) return [];
    if (/^\s*(?:\} )?(?:if|else|for|while|switch|catch|do)\b/.test(line)) return [];
    const indentation = line.slice(0, line.length - line.trimStart().length);
    const end = lines.findIndex((later, at) => at > start && later.startsWith(`${indentation}}`));
    return end === -1 ? [] : [{ start, end }];
  });
  return spans.map(({ start, end }) => {
    const inner = spans.filter((span) => span.start > start && span.end < end);
    const isOwn = (at: number): boolean => !inner.some((span) => span.start < at && at <= span.end);
    const own = lines
      .slice(start, end + 1)
      .filter((line, index) => line.trim() !== '' && isOwn(start + index));
    return { line: start + 1, length: own.length };
  });
}

function findImportViolations({ path, text }: SourceFile): string[] {
  if (isTest(path)) return [];
  const room = ROOMS.find(({ folder }) => path.startsWith(folder));
  const found: string[] = [];
  for (const specifier of findImports(text)) {
    const target = specifier.startsWith('.') ? resolvePath(path, specifier) : specifier;
    if (specifier.startsWith('.') && !/\.(?:ts|tsx|json|sql|mjs|css)$/.test(specifier)) {
      found.push(`${path}: import '${specifier}' needs its file extension`);
    }
    if (reachesIntoPackage(path, target)) {
      found.push(`${path}: import '${specifier}' reaches into another package; use its door`);
    }
    const [from, to] = [floorOf(path), floorOf(target)];
    if (from !== -1 && to > from) found.push(`${path}: import '${specifier}' leads to a floor above it`);
    if (room !== undefined && !isAllowed(room, target)) {
      found.push(`${path}: may not import '${specifier}': ${room.reason}`);
    }
    const isEngine = CONCRETE_ENGINE.test(target) && !CONCRETE_ENGINE.test(path);
    if (isEngine && path.startsWith('packages/') && path !== COMPOSITION_ROOT) {
      found.push(`${path}: may not import '${specifier}': only ${COMPOSITION_ROOT} knows concrete engines`);
    }
  }
  return found;
}

/** -1 outside the server. A file of the server that is on no floor is above them all. */
function floorOf(path: string): number {
  if (!path.startsWith('packages/server/')) return -1;
  const floor = FLOORS.findIndex((each) => each.test(path));
  return floor === -1 ? FLOORS.length : floor;
}

function isAllowed(room: Room, target: string): boolean {
  if (target.startsWith('node:')) return room.nodeModules;
  if (target.startsWith('packages/')) {
    const isBelow = (folder: string): boolean => target.startsWith(folder);
    return room.folders.some(isBelow) && !(room.exceptFolders ?? []).some(isBelow);
  }
  return room.packages.includes(target);
}

/** Relative paths stay inside their package; deep imports by package name are no door either. */
function reachesIntoPackage(path: string, target: string): boolean {
  if (/^@holdfast\/[^/]+\/./.test(target)) return !NARROW_DOORS.includes(target);
  const own = /^packages\/[^/]+\//.exec(path)?.[0];
  return own !== undefined && target.startsWith('packages/') && !target.startsWith(own);
}

function findTextViolations({ path, text }: SourceFile): string[] {
  const found: string[] = [];
  const code = stripComments(text);
  if (/^export default\b/m.test(code)) found.push(`${path}: no default exports`);
  if (/^\s*(?:export )?(?:declare )?(?:enum|namespace)\s+\w/m.test(code)) {
    found.push(`${path}: erasable TypeScript only: no enum, no namespace`);
  }
  if (/\bnew Bun\.CryptoHasher\([^)]*,/.test(code) && path !== KEYED_HASHER) {
    found.push(`${path}: a keyed hasher throws for a fault of other code: ${KEYED_HASHER} does not`);
  }
  if (isTest(path) || path.includes('/tools/')) return found;
  const global = (pattern: RegExp): string | undefined => pattern.exec(code)?.[0];
  if (path.startsWith('packages/') && code.includes('.slice()')) {
    found.push(`${path}: .slice() of a Buffer is a view, no copy: new Uint8Array(bytes), or [...list]`);
  }
  if (/^packages\/(?:protocol|client|console\/page)\//.test(path)) {
    const name = global(RUNTIME_GLOBALS);
    if (name !== undefined) found.push(`${path}: uses ${name}; what browsers run uses web standards only`);
  }
  if (path.startsWith('packages/files/') && !path.startsWith(FILES_STATE) && BUN_GLOBAL.test(code)) {
    found.push(`${path}: uses Bun; files run on Node as well, ${FILES_STATE} alone does not`);
  }
  if (path.startsWith('packages/server/core/')) {
    const name = global(WORLD_GLOBALS);
    if (name !== undefined)
      found.push(`${path}: uses ${name}; core reaches the world through its ports only`);
  }
  if (path.startsWith('packages/server/runtime/')) {
    const missing = WORKAROUND_HEAD.filter(
      (part) => !text.startsWith('/**') || !text.includes(`\n * ${part}`),
    );
    if (missing.length > 0) found.push(`${path}: a workaround is headed by ${missing.join(', ')}`);
  }
  return found;
}

/** Specifiers of static, re-exporting, side-effect, dynamic and type imports. */
export function findImports(text: string): string[] {
  const code = stripComments(text);
  const patterns = [
    /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm,
    /^\s*import\s*['"]([^'"]+)['"]/gm,
    /\bimport\(\s*['"]([^'"]+)['"]/g,
  ];
  return patterns.flatMap((pattern) => [...code.matchAll(pattern)].map((match) => match[1] as string));
}

/** Drops block comments and whole-line comments; strings that hold `//` keep their line. */
function stripComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
}

/** Tests, the suites every engine passes, and their fixtures. */
function isTest(path: string): boolean {
  return /\.test\.ts$|-suite\.ts$|(?:^|\/)test\//.test(path);
}

/** Resolves a relative link or import against the file that holds it. */
function resolvePath(from: string, relative: string): string {
  const parts = from.split('/').slice(0, -1);
  for (const part of relative.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '.' && part !== '') parts.push(part);
  }
  return parts.join('/');
}

/**
 * Links of Markdown pages that lead nowhere. `exists` answers for a path of the repository; headings are looked up in
 * `pages` themselves.
 */
export function findBrokenLinks(pages: readonly SourceFile[], exists: (path: string) => boolean): string[] {
  const byPath = new Map(pages.map((page) => [page.path, page.text]));
  const found: string[] = [];
  for (const page of pages) {
    const prose = page.text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '');
    for (const match of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      const link = match[1] as string;
      if (/^[a-z]+:/.test(link)) continue;
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? page.path : resolvePath(page.path, file);
      if (!exists(target)) found.push(`${page.path}: link to ${link} leads nowhere`);
      else if (anchor !== undefined && !hasHeading(byPath.get(target), anchor)) {
        found.push(`${page.path}: link to ${link}: no such heading`);
      }
    }
  }
  return found;
}

/** Comments such as `docs/bulk.md, Read many nodes` whose page has neither such a heading nor such bold words. */
export function findBrokenCitations(sources: readonly SourceFile[], pages: readonly SourceFile[]): string[] {
  const byPath = new Map(pages.map(({ path, text }) => [path, text.replaceAll('`', '')]));
  return sources.flatMap(({ path, text }) => {
    const joined = text.replace(/\n\s*\* ?/g, ' ');
    return [...joined.matchAll(/(docs\/[\w-]+\.md), ([A-Z][\w ]*\w|[a-z]+[A-Z]\w*)/g)].flatMap(
      ([cited, page = '', words = '']) => {
        const heading = new RegExp(`^#+ ${words}|\\*\\*${words}`, 'm');
        return heading.test(byPath.get(page) ?? '') ? [] : [`${path}: cites ${cited}: no such heading`];
      },
    );
  });
}

function hasHeading(text: string | undefined, anchor: string): boolean {
  if (text === undefined) return true;
  const slugs = [...text.matchAll(/^#+\s+(.*)$/gm)].map((match) =>
    (match[1] as string)
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .trim()
      .replaceAll(' ', '-'),
  );
  return slugs.includes(anchor);
}
