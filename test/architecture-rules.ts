/**
 * The house rules as one pure function over source texts, so that the test can plant violations and see them found.
 * Reading is line-based and cheap: the formatter guarantees the layout it leans on.
 */

/** A file of the repository: `path` is relative to its root with forward slashes. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

export const FILE_LINES_MAX = 400;
export const FUNCTION_LINES_MAX = 70;

/** What one room may import: prefixes of resolved paths (`packages/…`) and exact names of packages. */
interface Room {
  readonly folder: string;
  readonly folders: readonly string[];
  /** exceptions from `folders` */
  readonly exceptFolders?: readonly string[];
  readonly packages: readonly string[];
  readonly nodeModules: boolean;
  /** why, in the words a reader of the failure needs */
  readonly reason: string;
}

const PROTOCOL = '@holdfast/protocol';
const CLIENT = '@holdfast/client';
const FILES = '@holdfast/files';
const SERVER = '@holdfast/server';

/** The ports by which engines give and take whole deployments. */
const MIGRATION = 'packages/server/migration/';

/** First match wins, so the narrow rooms come first. Tools beside a package run on the developer's machine only. */
const ROOMS: readonly Room[] = [
  {
    folder: 'packages/protocol/tools/',
    folders: ['packages/protocol/'],
    packages: [],
    nodeModules: true,
    reason: 'a tool of protocol works on protocol alone',
  },
  {
    folder: 'packages/protocol/',
    folders: ['packages/protocol/'],
    packages: [],
    nodeModules: false,
    reason: 'protocol does no I/O and depends on nothing',
  },
  {
    folder: 'packages/client/tools/',
    folders: ['packages/client/'],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'a tool of client knows client and protocol',
  },
  ...clientRooms(),
  {
    folder: 'packages/files/',
    folders: ['packages/files/'],
    packages: [PROTOCOL, CLIENT, 'ignore', 'bun:sqlite', 'bun:ffi', 'bun'],
    nodeModules: true,
    reason: 'files gives the SDK its disk: it knows the SDK, never the command line or the server',
  },
  {
    folder: 'packages/cli/',
    folders: ['packages/cli/'],
    packages: [PROTOCOL, CLIENT, FILES, SERVER, 'commander', 'jose'],
    nodeModules: true,
    reason: 'the command line uses the SDK and the door of the server, never its inside',
  },
  {
    folder: 'packages/conformance/',
    folders: ['packages/conformance/'],
    packages: [PROTOCOL, 'commander', 'jose'],
    nodeModules: true,
    reason: 'conformance is a black box over HTTP',
  },
  {
    folder: 'packages/server/core/',
    folders: ['packages/server/core/'],
    packages: [PROTOCOL],
    nodeModules: false,
    reason: 'core holds the rules: protocol and its own ports only',
  },
  {
    folder: 'packages/server/auth/',
    folders: ['packages/server/auth/', 'packages/server/core/'],
    packages: [PROTOCOL, 'jose'],
    nodeModules: true,
    reason: 'auth knows neither http nor engines',
  },
  {
    folder: 'packages/server/http/',
    folders: ['packages/server/http/', 'packages/server/core/', 'packages/server/auth/'],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'http knows core, auth and protocol, never an engine',
  },
  {
    folder: MIGRATION,
    folders: [MIGRATION, 'packages/server/core/', 'packages/server/auth/'],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'copying a deployment knows the rules and its own ports, no engine',
  },
  {
    folder: 'packages/server/engine/embedded/',
    folders: [
      'packages/server/engine/embedded/',
      'packages/server/core/',
      'packages/server/auth/',
      MIGRATION,
    ],
    packages: [PROTOCOL, 'bun:sqlite', 'bun'],
    nodeModules: true,
    reason: "an engine knows core's ports and its own driver, never http or another engine",
  },
  {
    folder: 'packages/server/engine/scaleout/postgres/',
    folders: [
      'packages/server/engine/scaleout/postgres/',
      'packages/server/core/',
      'packages/server/auth/',
      MIGRATION,
      'packages/server/engine-urls.ts',
    ],
    packages: [PROTOCOL],
    nodeModules: true,
    reason: 'rows in PostgreSQL know nothing of where the bytes are, nor of http',
  },
  {
    folder: 'packages/server/engine/scaleout/s3/',
    folders: [
      'packages/server/engine/scaleout/s3/',
      'packages/server/core/',
      'packages/server/engine-urls.ts',
      MIGRATION,
    ],
    packages: [PROTOCOL, '@aws-sdk/credential-provider-node'],
    nodeModules: true,
    reason: "bytes know core's ports and where the bucket is, never rows, http or another engine",
  },
];

/** Inside the SDK: the tree format stands alone, building and reading know it, jobs know all of these; the root knows none. */
function clientRooms(): Room[] {
  const tree = 'packages/client/tree/';
  const room = (folder: string, folders: readonly string[], reason: string): Room => {
    return { folder, folders, packages: [PROTOCOL], nodeModules: false, reason };
  };
  const except = (exceptFolders: readonly string[], of: Room): Room => ({ ...of, exceptFolders });
  const bundle = 'packages/client/bundle/';
  const door = 'packages/client/index.ts';
  const all = ['packages/client/'];
  return [
    room(`${tree}format`, [`${tree}format`], 'the tree format is layouts and their rules alone'),
    room(`${tree}chunker`, [`${tree}format`, 'packages/client/sha256.ts'], 'cutting is a part of the format'),
    room(
      `${tree}build`,
      [`${tree}build`, `${tree}format`, `${tree}chunker`, 'packages/client/digest.ts'],
      'building is pure: nodes leave it through its sink',
    ),
    room(
      `${tree}read`,
      [`${tree}read`, `${tree}format`, 'packages/client/client.ts', 'packages/client/operations.ts'],
      'reading knows the format, and nodes through its source',
    ),
    except([bundle, door], room(tree, all, 'trees know the SDK around them, not bundles')),
    except([tree, door], room(bundle, all, 'bundles carry nodes of any kind: they know no trees')),
    room(door, all, 'the door of the SDK runs on web standards and protocol alone'),
    except(
      [tree, bundle, door],
      room('packages/client/', all, 'the SDK runs on web standards and protocol alone'),
    ),
  ];
}

/** Only the composition roots may name a concrete engine: of the server, one for each engine, of copies between them, and of its administration. */
const ENGINES_FOLDER = 'packages/server/engine/';
const COMPOSITION_ROOTS: readonly string[] = [
  'packages/server/open-embedded.ts',
  'packages/server/open-bucket.ts',
  'packages/server/open-scaleout.ts',
  'packages/server/open-deployment.ts',
  'packages/server/admin.ts',
];

/** Names that would bind a portable package to one runtime. */
const RUNTIME_GLOBALS = /(?<![\w.'"])(?:Bun|process|Buffer|Deno|__dirname|require)(?=[.([])/;
/** Names that would let the rules reach the world past their seams. */
const WORLD_GLOBALS =
  /(?<![\w.'"])(?:Date\.now|new Date|Math\.random|setTimeout|setInterval|fetch|console|Bun\.(?:file|write|serve)|process)\b/;

const KEBAB_CASE = /^(?:[a-z0-9]+(?:-[a-z0-9]+)*)(?:\.(?:test|bench|d))?\.(?:ts|mjs|sql)$/;

/** Every broken rule as one line `path: what is wrong and why`; empty when the house is in order. */
export function findViolations(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => [
    ...findNameViolations(file),
    ...findSizeViolations(file),
    ...findImportViolations(file),
    ...findTextViolations(file),
  ]);
}

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
    if (specifier.startsWith('.') && !/\.(?:ts|json|sql|mjs)$/.test(specifier)) {
      found.push(`${path}: import '${specifier}' needs its file extension`);
    }
    if (reachesIntoPackage(path, target)) {
      found.push(`${path}: import '${specifier}' reaches into another package; use its door`);
    }
    if (room !== undefined && !isAllowed(room, target)) {
      found.push(`${path}: may not import '${specifier}': ${room.reason}`);
    }
    const isEngine = target.startsWith(ENGINES_FOLDER) && !path.startsWith(ENGINES_FOLDER);
    if (isEngine && path.startsWith('packages/') && !COMPOSITION_ROOTS.includes(path)) {
      found.push(
        `${path}: may not import '${specifier}': only ${COMPOSITION_ROOTS.join(', ')} know concrete engines`,
      );
    }
  }
  return found;
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
  if (/^@holdfast\/[^/]+\/./.test(target)) return true;
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
  if (isTest(path) || path.includes('/tools/')) return found;
  const global = (pattern: RegExp): string | undefined => pattern.exec(code)?.[0];
  if (/^packages\/(?:protocol|client)\//.test(path)) {
    const name = global(RUNTIME_GLOBALS);
    if (name !== undefined) found.push(`${path}: uses ${name}; protocol and client use web standards only`);
  }
  if (path.startsWith('packages/server/core/')) {
    const name = global(WORLD_GLOBALS);
    if (name !== undefined)
      found.push(`${path}: uses ${name}; core reaches the world through its ports only`);
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

/** Tests, the suites every engine passes, and the worlds they run in. */
function isTest(path: string): boolean {
  return /\.test\.ts$|-suite\.ts$|(?:^|\/)test\/|\/engine\/\w+\/\w+(?:-\w+)*-world\.ts$/.test(path);
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
